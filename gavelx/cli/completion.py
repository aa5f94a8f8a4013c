"""What <tab> offers for the values of options. Nothing is imported until then."""
# ruff: noqa: PLC0415


def policies(typed: str) -> list[str]:
    """Policies and modifiers that go on with what is typed, inside of brackets and after commas as well.

    >>> policies("fifo,agnostic(max_min")
    ['fifo,agnostic(max_min_fairness']
    """
    from gavelx.policies.catalog import ours
    from gavelx.policies.loading import modifiers

    start = max(typed.rfind("("), typed.rfind(","), typed.rfind(" ")) + 1
    names = [*ours(), *(f"{name}(" for name in modifiers())]
    return [typed[:start] + name for name in names if name.startswith(typed[start:])]


def traces(typed: str) -> list[str]:
    """Bundled traces."""
    from gavelx.files.locate import names

    return [name for name in names("traces") if name.startswith(typed)]


def pages(typed: str) -> list[str]:
    """Pages of documentation."""
    from gavelx.files.locate import pages as shipped

    return [name for name in shipped() if name.startswith(typed)]
