"""The rules there are. A new one is one line here, one file beside this one, and its cases."""

from __future__ import annotations

from looptrace.rules.agent_cycle import AgentCycle
from looptrace.rules.blocked_task_spin import BlockedTaskSpin
from looptrace.rules.chant import Chant
from looptrace.rules.collaboration_loop import CollaborationLoop
from looptrace.rules.completed_task_revisit import CompletedTaskRevisit
from looptrace.rules.consecutive_errors import ConsecutiveErrors
from looptrace.rules.contract import Rule
from looptrace.rules.cross_task_cycle import CrossTaskCycle
from looptrace.rules.cycle import Cycle
from looptrace.rules.degradation import Degradation
from looptrace.rules.external_failure import ExternalFailure
from looptrace.rules.likely_loop import LikelyLoop
from looptrace.rules.max_iterations import MaxIterations
from looptrace.rules.max_runtime import MaxRuntime
from looptrace.rules.monologue import Monologue
from looptrace.rules.near_duplicate_output import NearDuplicateOutput
from looptrace.rules.no_measurable_progress import NoMeasurableProgress
from looptrace.rules.no_progress_repeat import NoProgressRepeat
from looptrace.rules.phase_cycle import PhaseCycle
from looptrace.rules.phase_visits import PhaseVisits
from looptrace.rules.repeated_call import RepeatedCall
from looptrace.rules.repeated_failure import RepeatedFailure
from looptrace.rules.rephrased_request import RephrasedRequest
from looptrace.rules.response_repeat import ResponseRepeat
from looptrace.rules.same_result import SameResult
from looptrace.rules.signature_repeat import SignatureRepeat
from looptrace.rules.stutter import Stutter
from looptrace.rules.transition_repeats import TransitionRepeats

# Guards stand where they are checked: two before the loops, and failures in a row after them.
RULES: tuple[type[Rule], ...] = (
    MaxIterations,
    MaxRuntime,
    RepeatedCall,
    Stutter,
    SignatureRepeat,
    ResponseRepeat,
    Cycle,
    RepeatedFailure,
    CompletedTaskRevisit,
    BlockedTaskSpin,
    NoProgressRepeat,
    CollaborationLoop,
    RephrasedRequest,
    PhaseVisits,
    TransitionRepeats,
    Monologue,
    ExternalFailure,
    SameResult,
    Degradation,
    NoMeasurableProgress,
    PhaseCycle,
    AgentCycle,
    CrossTaskCycle,
    Chant,
    NearDuplicateOutput,
    LikelyLoop,
    ConsecutiveErrors,
)


def known_rules() -> tuple[Rule, ...]:
    """Return every rule with its default settings, also those that have to be switched on."""
    return tuple(rule() for rule in RULES)


def default_rules() -> tuple[Rule, ...]:
    """Return the rules that judge where nobody says otherwise, with their default settings."""
    return tuple(rule for rule in known_rules() if rule.on_by_default)
