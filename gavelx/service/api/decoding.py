"""How large a message would be, told from its bytes, before objects are made of it.

16 MB hold eight million empty words; as objects they take 240 MB, and the time in which they are made is missing
for heartbeats.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from gavelx.errors import UserError
from gavelx.rpc.convert import UNREADABLE

SMALL = 65_536
"""Bytes that are read as they are."""
FIELDS_MAX = 1 << 20
"""In one message, at whatever depth: a hundred for each of the 10,000 jobs that a call may have."""
PIECE = 2000
"""Fields that are counted at a stretch."""
GO_ON = bytes(range(128, 256))
"""The bytes of a number but its last."""
WIDTH = {1: 8, 5: 4}
"""Bytes of a number that is written in full, by how it is written."""
TEXT = {FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE}
Read = Callable[[bytes], Any]


def kind_of(path: str) -> Descriptor:
    """What a method takes, by its path: ``/gavelx.v1.Scheduler/Submit``."""
    method = descriptor_pool.Default().FindMethodByName(path.removeprefix("/").replace("/", "."))
    return method.input_type


def decoded(read: Read, data: bytes) -> Any:
    """The message in the bytes. Raises :class:`UserError`."""
    with suppress(DecodeError):
        return read(data)
    raise UserError(**UNREADABLE)


def fields(data: bytes, kind: Descriptor) -> Iterator[int]:
    """How many fields a message has so far, said after each piece, and at the end.

    Those inside of others count, and each number of a packed list; what is no message ends early.
    """
    count = said = at = 0
    end, inside = len(data), _parts(kind)
    around = list[tuple[int, dict[int, Descriptor | None]]]()
    data += b"\0\0"  # what is cut off ends somewhere
    while around or at < end:
        if at >= end:
            end, inside = around.pop()
            continue
        tag, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
        count, how = count + 1, tag & 7
        if how == 2:
            size, at = (data[at], at + 1) if data[at] < 128 else _varint(data, at)
            if (number := tag >> 3) not in inside:
                at += size
            elif (part := inside[number]) is None:
                count += len(data[at : at + size].translate(None, GO_ON))
                at += size
            else:
                around.append((end, inside))
                end, inside = min(end, at + size), _parts(part)
        elif how == 0:
            _, at = (0, at + 1) if data[at] < 128 else _varint(data, at)
        else:
            at += WIDTH.get(how, 0)
        if count - said >= PIECE:
            said = count
            yield count
    yield count


@cache
def _parts(kind: Descriptor) -> dict[int, Descriptor | None]:
    """By number: what fields that are messages are, and None for lists of numbers."""
    return {
        field.number: field.message_type
        for field in kind.fields
        if field.message_type is not None or (field.is_repeated and field.cpp_type not in TEXT)
    }


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
