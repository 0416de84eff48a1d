"""The rules there are. A new one is one line here, one file beside this one, and its cases."""

from __future__ import annotations

from looptrace.rules.blocked_task_spin import BlockedTaskSpin
from looptrace.rules.collaboration_loop import CollaborationLoop
from looptrace.rules.completed_task_revisit import CompletedTaskRevisit
from looptrace.rules.contract import Rule
from looptrace.rules.cycle import Cycle
from looptrace.rules.external_failure import ExternalFailure
from looptrace.rules.monologue import Monologue
from looptrace.rules.no_progress_repeat import NoProgressRepeat
from looptrace.rules.phase_visits import PhaseVisits
from looptrace.rules.repeated_call import RepeatedCall
from looptrace.rules.repeated_failure import RepeatedFailure
from looptrace.rules.response_repeat import ResponseRepeat
from looptrace.rules.signature_repeat import SignatureRepeat
from looptrace.rules.transition_repeats import TransitionRepeats

RULES: tuple[type[Rule], ...] = (
    RepeatedCall,
    SignatureRepeat,
    ResponseRepeat,
    Cycle,
    RepeatedFailure,
    CompletedTaskRevisit,
    BlockedTaskSpin,
    NoProgressRepeat,
    CollaborationLoop,
    PhaseVisits,
    TransitionRepeats,
    Monologue,
    ExternalFailure,
)


def default_rules() -> tuple[Rule, ...]:
    """Return every rule with its default settings."""
    return tuple(rule() for rule in RULES)
