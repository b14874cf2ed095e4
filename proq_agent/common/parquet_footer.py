"""What a Parquet file of unknown origin declares to hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Of Thrift's compact protocol, in which a file ends with a description of itself.
BOOLEANS, BYTE, INTEGERS, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
MAX_VARINT_BYTES = 10
# Where there is the number of values of a column in a group of rows.
ROW_GROUPS, COLUMNS, COLUMN_METADATA, NUM_VALUES = 4, 1, 3, 5
Wanted = dict[int, Any]


def declared_values(path: Path) -> Iterator[tuple[int, int]]:
    """
    How many values each column has in each group of rows. pyarrow knows that too, but where the description of a column
    is damaged, asking ends the whole process.

    :param path: a Parquet file
    :return: number of the column, and of its values
    :raises ValueError: if the file does not say
    """
    with path.open("rb") as file:
        end = file.seek(-8, 2)
        size = int.from_bytes(file.read(4), "little")
        file.seek(max(0, end - size))
        description = _Description(file.read(size))
    wanted: Wanted = {ROW_GROUPS: {COLUMNS: {COLUMN_METADATA: {NUM_VALUES: {}}}}}
    for group in description.value(STRUCT, wanted).get(ROW_GROUPS, ()):
        for i, column in enumerate(group[COLUMNS]):
            n = column[COLUMN_METADATA][NUM_VALUES]
            if n < 0:
                raise ValueError(f"column {i} declares {n} values")
            yield i, n


class _Description:
    """
    Reads what is wanted of a structure in Thrift's compact protocol, and skips the rest.

    :param data: all of it
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def value(self, kind: int, wanted: Wanted) -> Any:
        """
        The next value.

        :param kind: of the value
        :param wanted: by number, the fields of a structure, or of each in a list, and what of them; no other is kept
        """
        if kind in BOOLEANS:
            return kind == BOOLEANS[0]
        if kind == BYTE:
            return self._bytes(1)[0]
        if kind in INTEGERS:
            n = self._varint()
            return (n >> 1) ^ -(n & 1)
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in LISTS:
            return self._list(wanted)
        if kind == STRUCT:
            return self._struct(wanted)
        raise ValueError(f"a value of kind {kind}, which Parquet has not")

    def _struct(self, wanted: Wanted) -> dict[int, Any]:
        fields, number = {}, 0
        while head := self._bytes(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.value(INTEGERS[0], {})
            value = self.value(head & 15, wanted.get(number, {}))
            if number in wanted:
                fields[number] = value
        return fields

    def _list(self, wanted: Wanted) -> list[Any]:
        head = self._bytes(1)[0]
        n = head >> 4 if head >> 4 < 15 else self._varint()
        kind = BYTE if head & 15 in BOOLEANS else head & 15
        if n > len(self.data):  # each takes a byte at least
            raise ValueError(f"a list of {n} parts in {len(self.data)} bytes")
        values = (self.value(kind, wanted) for _ in range(n))
        return [value for value in values if wanted]

    def _varint(self) -> int:
        n = 0
        for i in range(MAX_VARINT_BYTES):
            byte = self._bytes(1)[0]
            n |= (byte & 127) << 7 * i
            if byte < 128:
                return n
        raise ValueError("a number of more bits than there are")

    def _bytes(self, n: int) -> bytes:
        self.at += n
        if self.at > len(self.data):
            raise ValueError("the description of the file ends too early")
        return self.data[self.at - n : self.at]
