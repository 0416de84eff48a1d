"""Writes the traces of this directory; running it again changes nothing.

Run it from the project's root: `python -m examples.make_traces`.
"""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from examples import dialects
from examples.dialects import Call, Run, Step
from tests.otlp import Trace

TRACES = Path(__file__).parent / "traces"
ID_KEYS = ("traceId", "spanId", "parentSpanId")


def nightly_migration() -> Run:
    """Give a coding agent that applies the same failing migration seven times."""
    migration = {"file": "0042_split_invoice_address.sql", "database": "billing"}
    error = 'DuplicateColumn: column "street" of relation "invoices" already exists'
    thoughts = (
        "One migration is pending. I will apply it.",
        "The column seems to be there already. Perhaps a stale connection, so I try once more.",
        "That should have gone through by now. Applying the migration again.",
        "Maybe the lock was not released. Let me run the migration another time.",
        "The schema cache could be out of date; a fresh attempt should pick up the change.",
        "I will give the migration one more go before I look elsewhere.",
        "Strange. The statement is correct, so applying it now ought to work.",
    )
    attempt = (Call("apply_migration", migration, error=error, seconds=1.8),)
    listing = "0041_add_discounts.sql applied\n0042_split_invoice_address.sql pending"
    statement = "ALTER TABLE invoices ADD COLUMN street text, ADD COLUMN city text;"
    return Run(
        session="migrations-2026-03-14",
        service="nightly-jobs",
        agent="db-keeper",
        at="2026-03-14T02:00:00+00:00",
        instructions="You keep the databases up to date. Apply what is pending and report.",
        task="Apply the pending migrations of the billing database.",
        steps=(
            Step(
                "First I look at what is pending.",
                (Call("list_migrations", {"database": "billing"}, listing, seconds=0.4),),
            ),
            Step(
                "I read the migration before I run it.",
                (Call("read_migration", {"file": migration["file"]}, statement, seconds=0.2),),
            ),
            *(Step(thought, attempt, seconds=4.2) for thought in thoughts),
            Step("I could not apply 0042_split_invoice_address.sql tonight."),
        ),
    )


def release_notes() -> Run:
    """Give an agent that goes around three tools four times and learns nothing new."""
    notes = {"file": "notes/v2.4.0.md"}
    found = "14 entries: 5 added, 7 fixed, 2 removed. Newest: export of invoices as CSV."
    broken = "2 broken links: /docs/export-csv, /docs/webhooks"
    calls = (
        Call("read_changelog", {"since": "v2.3.0"}, found, seconds=0.3),
        Call("draft_notes", {**notes, "style": "short"}, "saved, 212 words", seconds=6.0),
        Call("check_links", notes, broken, seconds=2.2),
    )
    thoughts = (
        ("I start from the changelog.", "Now the draft.", "Are all links alive?"),
        ("Two links are dead; I look up the entries.", "A new draft.", "Check it again."),
        ("Still two. What did the changelog say?", "Write it anew.", "And the links?"),
        ("The links fail. Back to the changelog.", "Another draft.", "Let me verify."),
    )
    return Run(
        session="release-v2.4.0",
        service="release-notes",
        agent="release-writer",
        at="2026-03-12T15:20:00+00:00",
        instructions="You write release notes. All links in them must work.",
        task="Write the release notes of v2.4.0.",
        steps=tuple(
            Step(thought, (call,))
            for round_ in thoughts
            for thought, call in zip(round_, calls, strict=True)
        ),
    )


def support_bot() -> Run:
    """Give a bot whose answer a check rejects, and which then gives the same answer again."""
    answer = "I am sorry about that. Could you tell me your order number, so that I can look?"
    remark = "Reply rejected: it must say what happens next. Write it again."
    first = (
        "Hello! How can I help you today?",
        "I am sorry to hear that. Have you looked with your neighbours?",
    )
    return Run(
        session="ticket-88213",
        service="support-bot",
        agent="support-bot",
        at="2026-03-10T08:41:00+00:00",
        instructions="You answer customers of a shop. Say what happens next in every reply.",
        task="My parcel is marked as delivered, but it is not here.",
        steps=tuple(Step(text, remark=remark) for text in (*first, *[answer] * 7)),
    )


def flaky_import() -> Run:
    """Give an agent that changes the arguments each time and fails the same way each time."""
    file = "orders_february.csv"
    tries: tuple[tuple[str, dict[str, str | int]], ...] = (
        ("I import the file as it is.", {}),
        ("Perhaps the delimiter is a semicolon.", {"delimiter": ";"}),
        ("It could be the encoding.", {"encoding": "latin-1"}),
        ("I skip the first line.", {"skip_rows": 1}),
        ("Both, then.", {"delimiter": ";", "skip_rows": 1}),
        ("A smaller batch may get through.", {"batch": 100}),
        ("One at a time.", {"batch": 1, "encoding": "utf-8"}),
    )
    error = "ValueError: unknown column 'net_amout' in table orders"
    return Run(
        session="import-4f1c",
        service="order-import",
        agent="importer",
        at="2026-03-11T05:30:00+00:00",
        instructions="You import order files into the warehouse.",
        task=f"Import {file} into the table orders.",
        steps=(
            Step(
                "Let me see how large it is.",
                (Call("inspect_file", {"file": file}, "4812 rows, 9 columns", seconds=0.3),),
            ),
            *(
                Step(text, (Call("import_rows", {"file": file, **options}, error=error),))
                for text, options in tries
            ),
            Step("The import does not work."),
        ),
    )


def market_scout() -> Run:
    """Give a researcher that asks the same question again and again."""
    query = {"query": "heat pump sales Norway 2025"}
    nothing = "3 results, all older than 2022. No newer figures found."
    thoughts = (
        "I search for the sales figures.",
        "These are too old; there must be newer ones.",
        "Searching for the figures of 2025.",
        "Perhaps the index has been refreshed.",
        "I look once more for 2025.",
        "One more search should bring them up.",
    )
    return Run(
        session="research-heat-pumps",
        service="research-desk",
        agent="market-scout",
        at="2026-03-09T13:00:00+00:00",
        instructions="You find market figures and name the source.",
        task="How many heat pumps were sold in Norway in 2025?",
        steps=(
            *(Step(text, (Call("web_search", query, nothing, seconds=2.0),)) for text in thoughts),
            Step("I found no figures for 2025."),
        ),
    )


def source_checker() -> Run:
    """Give the researcher beside it, who reads one page after the other and gets done."""
    pages = (
        ("energy-agency.example/heat-pumps", "Published in January. Method: dealer survey."),
        ("trade-body.example/yearbook", "Members only; the summary names no method."),
        ("statistics.example/table/0711", "Official count, revised each quarter."),
        ("news.example/heat-pump-boom", "Quotes the trade body, adds nothing."),
        ("university.example/working-paper-9", "Compares the survey with the official count."),
    )
    return Run(
        session="research-heat-pumps",
        service="research-desk",
        agent="source-checker",
        at="2026-03-09T13:00:00+00:00",
        instructions="You judge how far a source can be trusted.",
        task="Which sources on heat pump sales can we quote?",
        steps=(
            *(
                Step(f"Next: {url}.", (Call("open_page", {"url": url}, text, seconds=1.5),))
                for url, text in pages
            ),
            Step("Quote the official count first, the energy agency second."),
        ),
    )


def checkout_fix() -> Run:
    """Give an agent that edits and tests until the tests pass."""
    suite = {"suite": "checkout"}
    edits = (
        ("cart/total.ts", "sum(items)", "sum(items.map(price))", "7 failed, 21 passed"),
        ("cart/discount.ts", "percent", "percent / 100", "4 failed, 24 passed"),
        ("cart/shipping.ts", "weight > 30", "weight >= 30", "1 failed, 27 passed"),
    )
    steps = [
        Step("I read the cart's code.", (Call("read_file", {"path": "cart/total.ts"}, "18 lines"),))
    ]
    for path, old, new, result in edits:
        edit = {"path": path, "old": old, "new": new}
        steps += [
            Step("What do the tests say?", (Call("run_tests", suite, result, seconds=9.0),)),
            Step(f"The fault is in {path}.", (Call("edit_file", edit, f"changed {path}"),)),
        ]
    last = Call("run_tests", suite, "28 passed", seconds=9.0)
    return Run(
        session="fix-checkout-311",
        service="code-agent",
        agent="shop-coder",
        at="2026-03-13T10:05:00+00:00",
        instructions="You fix code. Run the tests after each change.",
        task="The checkout tests fail. Make them pass.",
        steps=(*steps, Step("Once more.", (last,)), Step("All checkout tests pass.")),
    )


def deploy_polling() -> Run:
    """Give an agent that asks for a status until it is the one wanted, waiting longer each time."""
    states = (
        "queued behind 2 others",
        "queued behind 1 other",
        "building image",
        "pushing image",
        "starting: 1 of 6 replicas ready",
        "starting: 4 of 6 replicas ready",
        "live: 6 of 6 replicas ready",
    )
    deployment = {"deployment": "web-spring-sale"}
    polls = (
        Step("Let me look.", (Call("get_deployment", deployment, state, seconds=2.0**index),))
        for index, state in enumerate(states)
    )
    start = Call("deploy", {"service": "web", "tag": "spring-sale"}, "web-spring-sale created")
    return Run(
        session="deploy-web-spring-sale",
        service="deploys",
        agent="deploy-watcher",
        at="2026-03-15T18:00:00+00:00",
        instructions="You deploy services and wait until they are live.",
        task="Deploy web with the tag spring-sale.",
        steps=(Step("I start the deployment.", (start,)), *polls, Step("web-spring-sale is live.")),
    )


def bulk_rename() -> Run:
    """Give an agent that makes the same edit in many files, three at a time."""
    batches = (
        ("api/orders.py", "api/returns.py", "api/invoices.py"),
        ("jobs/nightly.py", "jobs/exports.py", "jobs/cleanup.py"),
        ("admin/views.py", "admin/forms.py", "cli/main.py"),
    )
    rename = {"old": "get_basket", "new": "load_basket"}
    uses = "\n".join(f"{path}: get_basket" for batch in batches for path in batch)
    return Run(
        session="rename-load-basket",
        service="code-agent",
        agent="renamer",
        at="2026-03-16T09:15:00+00:00",
        instructions="You refactor code without changing what it does.",
        task="Rename get_basket to load_basket everywhere.",
        steps=(
            Step("Where is it used?", (Call("search_code", {"text": "get_basket"}, uses),)),
            *(
                Step(
                    f"I rename it in {len(batch)} files.",
                    tuple(
                        Call("edit_file", {"path": path, **rename}, "1 replacement made")
                        for path in batch
                    ),
                )
                for batch in batches
            ),
            Step("Is any use left?", (Call("search_code", {"text": "get_basket"}, "no matches"),)),
            Step("get_basket is now load_basket in 9 files."),
        ),
    )


def site_reader() -> Run:
    """Give an agent of which the trace tells only that it used one tool seven times."""
    return Run(
        session="reading-list-17",
        service="reading-list",
        agent="site-reader",
        at="2026-03-17T07:00:00+00:00",
        instructions="You summarise pages.",
        task="Summarise my reading list.",
        steps=(
            *(Step("The next page.", (Call("fetch_page", {}),)) for _ in range(7)),
            Step("Here is your summary."),
        ),
    )


def thumbnails() -> Run:
    """Give an agent that retries twice, as one should, and then succeeds."""
    busy = "ConnectionError: the image service is busy"
    picture: dict[str, str | int] = {"image": "spring-sale-banner.png", "width": 320}
    return Run(
        session="thumbnails-spring",
        service="media",
        agent="thumbnailer",
        at="2026-03-15T11:30:00+00:00",
        instructions="You prepare pictures for the shop.",
        task="Make a thumbnail of the spring sale banner and publish it.",
        steps=(
            Step("I make the thumbnail.", (Call("make_thumbnail", picture, error=busy),)),
            Step("Busy. I try again.", (Call("make_thumbnail", picture, error=busy, seconds=3),)),
            Step("Once more.", (Call("make_thumbnail", picture, "320x180, 14 kB", seconds=2),)),
            Step("Now I publish it.", (Call("publish", {"image": "thumb-320.png"}, "online"),)),
            Step("The thumbnail is online."),
        ),
    )


def research_two_agents() -> Trace:
    """Give two agents side by side under one span, the first of them stuck."""
    scout, checker = market_scout(), source_checker()
    trace = Trace(
        scout.session,
        session_key="session.id",
        service=scout.service,
        scope="langfuse-sdk",
        at=scout.at,
    )
    root = trace.span("research", None, {"langfuse.observation.type": "span"}, seconds=0)
    dialects.langfuse(trace, root, scout, 0.1)
    dialects.langfuse(trace, root, checker, 0.6)
    return trace


def protobuf(request: dict[str, Any]) -> bytes:
    """Give an OTLP/JSON request as OTLP/protobuf.

    Protobuf's own JSON mapping reads ids as base64, where OTLP/JSON writes them in hex.
    """
    request = json.loads(json.dumps(request))
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for key in ID_KEYS:
                    span[key] = b64encode(bytes.fromhex(span[key])).decode()
    message = ParseDict(request, ExportTraceServiceRequest())
    return bytes(message.SerializeToString(deterministic=True))


def contents() -> dict[str, bytes]:
    """Give the content of every trace file by its name."""
    lines = {
        "nightly_migration_loop.jsonl": dialects.langgraph(nightly_migration()).lines(),
        "release_notes_cycle_loop.jsonl": dialects.openinference(release_notes()).lines(),
        "support_bot_same_answer_loop.jsonl": dialects.openai_sdk(support_bot()).lines(),
        "flaky_import_loop.jsonl": dialects.traceloop(flaky_import()).lines(),
        "checkout_fix_healthy.jsonl": dialects.vercel(checkout_fix()).lines(),
        "bulk_rename_healthy.jsonl": dialects.langsmith(bulk_rename()).lines(parents_first=True),
        "redacted_unknown.jsonl": dialects.adk(site_reader()).lines(),
    }
    research = json.dumps(research_two_agents().request(), indent=2) + "\n"
    polling = dialects.pydantic_ai(deploy_polling()).lines()
    return {
        **{name: text.encode() for name, text in lines.items()},
        "research_two_agents_loop.json": research.encode(),
        "deploy_polling_healthy.jsonl.gz": gzip.compress(polling.encode(), mtime=0),
        "thumbnail_retry_healthy.binpb": protobuf(dialects.strands(thumbnails()).request()),
    }


def write(directory: Path) -> None:
    """Write all trace files into a directory, which is made where it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents().items():
        (directory / name).write_bytes(content)


if __name__ == "__main__":
    write(TRACES)
