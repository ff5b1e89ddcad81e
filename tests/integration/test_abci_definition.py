"""Our message definition against the public one, and the generated code against our definition."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from cairn.engine.abci.proto import abci_pb2

SOURCE = Path(__file__).parents[2] / "src"
OURS = "cairn/engine/abci/proto/abci.proto"
PACKAGES = (".tendermint.abci.", ".tendermint.types.", ".tendermint.crypto.", ".cairn.abci.")


def compile_definition(root: Path, file: str, scratch: Path) -> list[FileDescriptorProto]:
    output = scratch / "descriptors"
    command = [f"-I{root}", "--include_imports", f"--descriptor_set_out={output}", file]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *command], check=True)
    return list(FileDescriptorSet.FromString(output.read_bytes()).file)


def bare(type_name: str) -> str:
    for package in PACKAGES:
        type_name = type_name.removeprefix(package)
    return type_name


def shape_of_field(message: DescriptorProto, field: FieldDescriptorProto) -> tuple[object, ...]:
    """Everything that decides its bytes, and its name."""
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
    packed = field.options.packed if field.options.HasField("packed") else None
    return field.number, field.name, field.type, field.label, bare(field.type_name), oneof, packed


def shape_of_enum(enum: EnumDescriptorProto) -> list[tuple[int, str]]:
    return [(value.number, value.name) for value in enum.value]


class Definition:
    """All messages and enums by their names without packages."""

    def __init__(self, files: list[FileDescriptorProto]) -> None:
        self.messages: dict[str, DescriptorProto] = {}
        self.enums: dict[str, EnumDescriptorProto] = {}
        for file in files:
            if f".{file.package}." in PACKAGES:
                self._add(f".{file.package}.", file.message_type, file.enum_type)

    def _add(self, prefix: str, messages: Iterable[DescriptorProto], enums: Iterable[EnumDescriptorProto]) -> None:
        for enum in enums:
            self.enums[bare(prefix + enum.name)] = enum
        for message in messages:
            # Two packages have a Validator; only the one of tendermint.abci is ever on this socket.
            if not (prefix == ".tendermint.types." and message.name == "Validator"):
                self.messages[bare(prefix + message.name)] = message
            self._add(f"{prefix}{message.name}.", message.nested_type, message.enum_type)

    def shapes(self, *roots: str) -> dict[str, object]:
        """What `roots` can hold, at any depth."""
        found: dict[str, object] = {}
        ahead = list(roots)
        while ahead:
            name = ahead.pop()
            if name in found or name.startswith(".google.protobuf."):
                continue
            if name in self.enums:
                found[name] = shape_of_enum(self.enums[name])
                continue
            message = self.messages[name]
            found[name] = sorted(shape_of_field(message, field) for field in message.field)
            ahead += [bare(field.type_name) for field in message.field if field.type_name]
        return found


@pytest.fixture
def ours(tmp_path: Path) -> Definition:
    return Definition(compile_definition(SOURCE, OURS, tmp_path))


def test_every_message_is_the_public_one(cometbft_tools: Path, ours: Definition, tmp_path: Path) -> None:
    public = Definition(compile_definition(cometbft_tools / "proto", "tendermint/abci/types.proto", tmp_path))
    expected = public.shapes("Request", "Response")
    assert {"RequestCheckTx", "CheckTxType", "ResponseFinalizeBlock", "PublicKey", "EvidenceParams"} < set(expected)
    assert ours.shapes("Request", "Response") == expected


def test_our_definition_has_only_messages_that_the_socket_carries(ours: Definition) -> None:
    assert set(ours.messages) | set(ours.enums) == set(ours.shapes("Request", "Response"))


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    # A difference means: run `make generate`.
    committed = FileDescriptorProto.FromString(abci_pb2.DESCRIPTOR.serialized_pb)
    current = next(file for file in compile_definition(SOURCE, OURS, tmp_path) if file.name == OURS)
    for message in current.message_type:
        for field in message.field:
            field.ClearField("json_name")  # The compiler adds it to a descriptor set only.
    assert committed == current
