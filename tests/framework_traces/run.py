"""What happens in the traces of this folder: a call that fails again and again, or other work."""

from collections.abc import Mapping

from examples.dialects import Call, Step

AGENT = "packer"
CHECK = "check_labels"
ORDER = {"order": "A17"}
ERROR = "LabelError: 2 of 5 labels are missing"


def _step(text: str, name: str, arguments: Mapping[str, str], result: str = "") -> Step:
    return Step(text, (Call(name, arguments, result, "" if result else ERROR),))


AGAIN = _step("I check the labels once more.", CHECK, ORDER)
STEPS = {
    "loop": (
        *(_step("I check the labels.", CHECK, ORDER), AGAIN, AGAIN, AGAIN, AGAIN),
        Step("The labels stay missing."),
    ),
    "ok": (
        _step("I read the order.", "read_order", ORDER, "crates A and B"),
        _step("I check its labels.", CHECK, ORDER, "2 labels missing"),
        _step("Crate A first.", "print_label", {"order": "A17", "crate": "A"}, "printed"),
        _step("Did that help?", CHECK, ORDER, "1 label missing"),
        _step("Now crate B.", "print_label", {"order": "A17", "crate": "B"}, "printed"),
        _step("The last check.", CHECK, ORDER, "all labels there"),
        Step("Order A17 can go."),
    ),
}
