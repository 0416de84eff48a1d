BEGIN TRANSACTION;
CREATE TABLE events (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        type TEXT NOT NULL,
        task TEXT NOT NULL,
        agent TEXT NOT NULL,
        rule TEXT NOT NULL,
        finding TEXT NOT NULL,
        at_ns INTEGER NOT NULL,
        body TEXT NOT NULL -- the whole event as JSON
    ) STRICT
    ;
INSERT INTO "events" VALUES(1,'a98f81f99e6379e7','loop_detected','t1','','blocked_task_spin','912550bb9a1035c1',3000000000,'{"id":"a98f81f99e6379e7","type":"loop_detected","task":"t1","at_ns":3000000000,"turn":3,"status":"active","status_before":"active","session":"t1","trace_id":"example","span_id":"0002","agent":"","action":"unblock_authority","rule":"blocked_task_spin","finding":"912550bb9a1035c1","gate":"","why":null,"attempts":3,"loop_count":2,"signature":"","turn_first":1,"reason":"3 attempts in a row were blocked (no key), turns 1–3","pivots":0,"retry_after_s":0,"blockers":["no key"],"decision":null,"note":null,"history":[]}');
INSERT INTO "events" VALUES(2,'8b8b97d42d476cdc','gate_opened','t1','','blocked_task_spin','912550bb9a1035c1',4000000000,'{"id":"8b8b97d42d476cdc","type":"gate_opened","task":"t1","at_ns":4000000000,"turn":4,"status":"blocked","status_before":"active","session":"t1","trace_id":"example","span_id":"0003","agent":"","action":"gate","rule":"blocked_task_spin","finding":"912550bb9a1035c1","gate":"d4515d717dd581e2","why":"UNBLOCKING_FAILED","attempts":4,"loop_count":3,"signature":"","turn_first":1,"reason":"4 attempts in a row were blocked (no key), turns 1–4","pivots":0,"retry_after_s":0,"blockers":["no key"],"decision":null,"note":null,"history":[]}');
INSERT INTO "events" VALUES(3,'d900c9776a9c41ef','gate_resolved','t1','','blocked_task_spin','',4000000001,'{"id":"d900c9776a9c41ef","type":"gate_resolved","task":"t1","at_ns":4000000001,"turn":4,"status":"active","status_before":"blocked","session":"","trace_id":"example","span_id":"0003","agent":"","action":null,"rule":"blocked_task_spin","finding":"","gate":"d4515d717dd581e2","why":null,"attempts":0,"loop_count":0,"signature":"","turn_first":0,"reason":"person","pivots":0,"retry_after_s":0,"blockers":[],"decision":"continue","note":"The key is in the vault.","history":[]}');
INSERT INTO "events" VALUES(4,'a9cf62a28bf8cf57','counter_reset','t1','','','',4000000001,'{"id":"a9cf62a28bf8cf57","type":"counter_reset","task":"t1","at_ns":4000000001,"turn":4,"status":"active","status_before":"blocked","session":"","trace_id":"example","span_id":"0003","agent":"","action":null,"rule":"","finding":"","gate":"","why":null,"attempts":0,"loop_count":3,"signature":"","turn_first":0,"reason":"person","pivots":0,"retry_after_s":0,"blockers":[],"decision":"continue","note":"The key is in the vault.","history":[]}');
INSERT INTO "events" VALUES(5,'bcb8554e199ec4d2','loop_detected','t2','','repeated_call','884dd70550a1e453',3000000000,'{"id":"bcb8554e199ec4d2","type":"loop_detected","task":"t2","at_ns":3000000000,"turn":3,"status":"active","status_before":"active","session":"t2","trace_id":"example","span_id":"0002","agent":"","action":"warn","rule":"repeated_call","finding":"884dd70550a1e453","gate":"","why":null,"attempts":3,"loop_count":2,"signature":"run:a#d63f0632b19e0a52","turn_first":1,"reason":"run(a) gave the same result 3 times, turns 1–3","pivots":0,"retry_after_s":0,"blockers":[],"decision":null,"note":null,"history":[]}');
INSERT INTO "events" VALUES(6,'2525795afc32d398','gate_opened','t2','','repeated_call','884dd70550a1e453',5000000000,'{"id":"2525795afc32d398","type":"gate_opened","task":"t2","at_ns":5000000000,"turn":5,"status":"paused_for_intervention","status_before":"active","session":"t2","trace_id":"example","span_id":"0004","agent":"","action":"gate","rule":"repeated_call","finding":"884dd70550a1e453","gate":"b8707a6d07377b07","why":"LADDER","attempts":5,"loop_count":4,"signature":"run:a#d63f0632b19e0a52","turn_first":1,"reason":"run(a) gave the same result 5 times, turns 1–5","pivots":0,"retry_after_s":0,"blockers":[],"decision":null,"note":null,"history":[]}');
CREATE TABLE gates (
        id TEXT PRIMARY KEY,
        event TEXT NOT NULL UNIQUE REFERENCES events (id),
        task TEXT NOT NULL,
        rule TEXT NOT NULL,
        signature TEXT NOT NULL,
        why TEXT NOT NULL,
        loop_count INTEGER NOT NULL,
        opened_ns INTEGER NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('open', 'resolved', 'withdrawn')),
        resolved_ns INTEGER,
        decision TEXT,
        note TEXT
    ) STRICT
    ;
INSERT INTO "gates" VALUES('d4515d717dd581e2','8b8b97d42d476cdc','t1','blocked_task_spin','','UNBLOCKING_FAILED',3,4000000000,'resolved',4000000001,'continue','The key is in the vault.');
INSERT INTO "gates" VALUES('b8707a6d07377b07','2525795afc32d398','t2','repeated_call','run:a#d63f0632b19e0a52','LADDER',4,5000000000,'open',NULL,NULL,NULL);
CREATE TABLE outbox (
        event TEXT PRIMARY KEY REFERENCES events (id),
        created_ns INTEGER NOT NULL,
        next_try_ns INTEGER NOT NULL,
        tries INTEGER NOT NULL
    ) STRICT
    ;
INSERT INTO "outbox" VALUES('a98f81f99e6379e7',1000000000000,1000000000000,0);
INSERT INTO "outbox" VALUES('8b8b97d42d476cdc',1000000000000,1000000000000,0);
INSERT INTO "outbox" VALUES('d900c9776a9c41ef',1000000000000,1000000000000,0);
INSERT INTO "outbox" VALUES('a9cf62a28bf8cf57',1000000000000,1000000000000,0);
INSERT INTO "outbox" VALUES('bcb8554e199ec4d2',1000000000000,1000000000000,0);
INSERT INTO "outbox" VALUES('2525795afc32d398',1000000000000,1000000000000,0);
CREATE TABLE pivots (
        event TEXT PRIMARY KEY REFERENCES events (id),
        task TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        entropy_count INTEGER NOT NULL, -- attempts of the loop that triggered it
        at_ns INTEGER NOT NULL
    ) STRICT
    ;
CREATE TABLE resolutions (
        id TEXT PRIMARY KEY,
        gate TEXT NOT NULL REFERENCES gates (id),
        at_ns INTEGER NOT NULL,
        decision TEXT NOT NULL,
        note TEXT
    ) STRICT
    ;
INSERT INTO "resolutions" VALUES('b18e425b2763582f','d4515d717dd581e2',4000000001,'continue','The key is in the vault.');
CREATE TABLE tasks (
        task TEXT PRIMARY KEY,
        status TEXT NOT NULL,
        pivot_count INTEGER NOT NULL,
        loop_count INTEGER NOT NULL,
        state TEXT NOT NULL, -- the whole state as JSON
        updated_ns INTEGER NOT NULL -- time of the last event
    ) STRICT
    ;
INSERT INTO "tasks" VALUES('t1','active',0,0,'{"task":"t1","status":"active","gate":null,"pivots":0,"forced":0,"retries":0,"retry_ns":0,"granted":[],"told":{},"loops":{}}',4000000001);
INSERT INTO "tasks" VALUES('t2','paused_for_intervention',0,4,'{"task":"t2","status":"paused_for_intervention","gate":{"id":"b8707a6d07377b07","rule":"repeated_call","signature":"run:a#d63f0632b19e0a52","at_ns":5000000000},"pivots":0,"forced":0,"retries":0,"retry_ns":0,"granted":[],"told":{" run:a#d63f0632b19e0a52":false},"loops":{"f23918023e470bfd":{"attempts":4,"dealt_with":0,"outlasts_completion":false},"884dd70550a1e453":{"attempts":5,"dealt_with":0,"outlasts_completion":false}}}',5000000000);
CREATE INDEX events_of_task ON events (task, seq);
CREATE UNIQUE INDEX open_gate_of_task ON gates (task) WHERE status = 'open';
CREATE INDEX gates_by_signature ON gates (signature);
COMMIT;
PRAGMA application_id = 1819242352;
PRAGMA user_version = 1;
