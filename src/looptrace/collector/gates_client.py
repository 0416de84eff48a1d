"""The gates of a running server, over HTTP."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from http import HTTPStatus
from http.client import HTTPException
from ssl import SSLCertVerificationError
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from looptrace.analyzer.fingerprint.similarity import Meaning
from looptrace.analyzer.gates.decisions import GateError
from looptrace.analyzer.gates.incidents import IncidentState, IncidentWord
from looptrace.analyzer.gates.notice import GateNotice
from looptrace.analyzer.gates.silences import Matchers, Silence
from looptrace.bounded_dict import BoundedDict
from looptrace.collector.api_bodies import (
    DecidedGates,
    DecisionBody,
    Erasure,
    ErasureBody,
    ErasureKind,
    GateAnswer,
    GateList,
    IncidentAnswer,
    IncidentDecisionBody,
    IncidentList,
    SilenceAnswer,
    SilenceBody,
    SilenceList,
    WarmingList,
    WarmingTask,
    WordBody,
)
from looptrace.collector.api_paths import (
    ERASURES_PATH,
    GATE_METRICS_PATH,
    INCIDENTS_PATH,
    SILENCES_PATH,
    WARMING_PATH,
)
from looptrace.collector.sdk.gate_stream import SILENCE_S_MAX, Server, events_of
from looptrace.collector.sdk.server_watch import TokenError, reason_of
from looptrace.collector.store.gate_file.incidents import Incident, IncidentDetails
from looptrace.collector.store.gate_file.stored_gates import GateDetails, GateStatus, StoredGate
from looptrace.collector.store.gate_metrics import GateMetrics
from looptrace.collector.store.locks import StoreError
from looptrace.typed_json import decoded

T = TypeVar("T")
_GATES = "/v1/gates"
_JSON_BYTES_MAX = 64 << 20
_OPENED_MAX = 10_000


class RemoteGates:
    """The methods of `GateStore`, for a server.

    Raises:
        GateError: by every method, if the server refuses the request.
        StoreError: if the server cannot be reached.
    """

    def __init__(self, server: Server, *, timeout_s: float = SILENCE_S_MAX) -> None:
        """Ask this server; `timeout_s` bounds each wait for an answer."""
        self._server = server
        self._timeout_s = timeout_s

    def gates(self, status: GateStatus | None = None) -> list[StoredGate]:
        """Return gates, the open ones first, then the newest."""
        query = f"?{urlencode({'status': status})}" if status else ""
        return self._asked("GET", _GATES + query, GateList).gates

    def gate(self, gate_id: str, _meaning: Meaning | None = None) -> GateDetails:
        """Return a gate with its history; the server's settings decide how meaning is compared."""
        return self._asked("GET", _path(_GATES, gate_id), GateDetails)

    def resolve(
        self,
        gate_id: str,
        decision: str,
        note: str | None,
        *,
        who: str | None = None,
        add: float | None = None,
    ) -> StoredGate:
        """Record a person's decision and name, and what it adds to a budget; returns the gate."""
        said = DecisionBody(decision, note, who, add)
        return self._asked("POST", _path(_GATES, gate_id) + "/resolve", GateAnswer, said).gate

    def incidents(self, state: IncidentState | None = None) -> list[Incident]:
        """Return incidents: those that need somebody first, then those with the newest gates."""
        query = f"?{urlencode({'state': state})}" if state else ""
        return self._asked("GET", INCIDENTS_PATH + query, IncidentList).incidents

    def incident(self, incident: str) -> IncidentDetails:
        """Return an incident with its gates."""
        return self._asked("GET", _path(INCIDENTS_PATH, incident), IncidentDetails)

    def say(self, incident: str, word: IncidentWord) -> Incident:
        """Record what a person says of an incident."""
        said = WordBody(word.state, word.until_ns, word.owner, word.why, word.who)
        return self._asked("POST", _path(INCIDENTS_PATH, incident), IncidentAnswer, said).incident

    def resolve_incident(
        self, incident: str, decision: str, note: str | None, who: str | None = None
    ) -> list[str]:
        """Record one decision on all open gates of an incident; return their ids."""
        said = IncidentDecisionBody(decision, note, who)
        path = _path(INCIDENTS_PATH, incident) + "/decide"
        return self._asked("POST", path, DecidedGates, said).gates

    def silences(self) -> list[Silence]:
        """Return the silences that hold now."""
        return self._asked("GET", SILENCES_PATH, SilenceList).silences

    def silence(
        self, matchers: Matchers, ends_ns: int, why: str, who: str | None = None
    ) -> Silence:
        """Hold the openings of matching gates back from webhooks until a time."""
        made = SilenceBody(ends_ns, why, **asdict(matchers), who=who)
        return self._asked("POST", SILENCES_PATH, SilenceAnswer, made).silence

    def end_silence(self, silence: str) -> None:
        """End a silence."""
        self._asked("DELETE", _path(SILENCES_PATH, silence), SilenceList)

    def erase(self, kind: ErasureKind, name: str) -> Erasure:
        """Let the server erase what it has of somebody, for which it starts again."""
        return self._asked("POST", ERASURES_PATH, Erasure, ErasureBody(kind, name))

    def erasure(self, erasure_id: str) -> Erasure:
        """Return how far an erasure is."""
        return self._asked("GET", _path(ERASURES_PATH, erasure_id), Erasure)

    def metrics(self) -> GateMetrics:
        """Return how often tasks loop, and how often they are stopped."""
        return self._asked("GET", GATE_METRICS_PATH, GateMetrics)

    def warming(self) -> list[WarmingTask]:
        """Return the tasks where a rule is one attempt short of a loop."""
        return self._asked("GET", WARMING_PATH, WarmingList).tasks

    def watch(self) -> Iterator[GateNotice]:
        """Follow the events, beginning with the openings of open gates, until the server ends.

        An opening that comes once more has a late name.
        """
        opened: BoundedDict[str, str] = BoundedDict(_OPENED_MAX)  # tasks by id of the event
        try:
            for _, data in events_of(self._server):
                notice = decoded(data, GateNotice)
                is_named = opened.get(notice.id, notice.task) != notice.task
                opened[notice.id] = notice.task
                yield replace(notice, type="gate_renamed") if is_named else notice
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise self._failed(error) from error

    def _asked(self, method: str, path: str, kind: type[T], said: object = None) -> T:
        body = None if said is None else msgspec.json.encode(said).decode()
        try:
            connection, response = self._server.request(
                method, path, body=body, timeout_s=self._timeout_s
            )
            with closing(connection):
                content = response.read(_JSON_BYTES_MAX)
            if HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                why = decoded(content, _Refused)
                raise GateError(why.error or f"{self._server.url}: {why.message}.")
            if response.status != HTTPStatus.OK:
                raise OSError(f"status {response.status}")
            return decoded(content, kind)
        except (OSError, HTTPException, msgspec.DecodeError) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreError:
        if isinstance(error, TokenError):
            return StoreError(str(error))
        if isinstance(error, SSLCertVerificationError):
            return StoreError(f"{self._server.url}: {reason_of(error)}.")
        why = getattr(error, "strerror", None) or error
        tls = "with" if self._server.url.startswith("https:") else "without"
        return StoreError(
            f"{self._server.url}: gates cannot be read ({why}); is `looptrace serve` running "
            f"there, {tls} TLS?"
        )


class _Refused(msgspec.Struct):
    """Why a request is refused: by the API, or before it by who may do what."""

    error: str = ""
    message: str = ""


def _path(of_all: str, name: str) -> str:
    return f"{of_all}/{quote(name, safe='')}"
