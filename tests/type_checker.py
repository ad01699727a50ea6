"""The checker of types under jaxtyping: beartype, made when needed, asked a few times in a test.

jaxtyping hands over two functions for each of ours: one to check what goes in, and one to check
what went in once more together with what comes out. The second need not look at what the first
has seen: the sizes bound to the names of axes outlive both. And most functions of a package are
never called by the few tests of one process, so theirs need not be made at all. A function inside
another is made anew at every call, and its checker would be too: it goes unchecked. In each test
the first calls of every function are checked, and not the thousandth step of a loop: jaxtyping's
own wrapper, which costs more than most of our functions, then stands aside.
"""

import functools
import inspect
import sys
import typing

import jaxtyping
from beartype import beartype

if sys.version_info < (3, 12):
    # from 3.12 on a protocol remembers its own members, before it looks them up at every check
    typing._get_protocol_attrs = functools.cache(typing._get_protocol_attrs)


OFTEN = 1
"""A function that was right so often in one test is believed until the next one begins."""

begun = 0
"""How many tests have begun."""


def begin_test():
    """Doubt every function anew."""
    global begun
    begun += 1


def checked(function):
    """The function with its types checked; what comes out alone if it says what that is."""
    hints = function.__annotations__
    if hints.get("return", typing.Any) is not typing.Any:
        function.__annotations__ = {"return": hints["return"]}
    elif all(hint is typing.Any for hint in hints.values()):
        return function
    made = None

    @functools.wraps(function)
    def when_called(*args, **kwargs):
        nonlocal made
        made = made or beartype(function)
        return made(*args, **kwargs)

    return when_called


def at_first(function, with_checks):
    """The function with checks for its first calls in a test, and then the function itself."""
    test, calls = 0, 0

    @functools.wraps(function)
    def when_called(*args, **kwargs):
        nonlocal test, calls
        if test != begun:
            test, calls = begun, 0
        if calls >= OFTEN:
            return function(*args, **kwargs)
        found = with_checks(*args, **kwargs)
        calls += 1
        return found

    return when_called


def jaxtyped(*, typechecker):
    """What jaxtyping puts on every function of the package as it is imported."""
    whole = _jaxtyped(typechecker=typechecker)

    def decorate(member):
        if "<locals>" in member.__qualname__:
            return member
        done = whole(member)
        return at_first(member, done) if inspect.isfunction(member) else done

    return decorate


_jaxtyped, jaxtyping.jaxtyped = jaxtyping.jaxtyped, jaxtyped
