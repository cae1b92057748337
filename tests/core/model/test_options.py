"""Options behind the file name."""

from __future__ import annotations

import pytest
from messages import answer, message, wanted

from ganeti_steward.core.errors import BadInput
from ganeti_steward.core.model.options import Options, parse_options, written


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], Options()),
        (["--no-capacity-checks"], Options(capacity_checks=False)),
        (["--ignore-soft-errors"], Options(ignore_soft_errors=True)),
        (["--restrict-allocation-to=n1,n2"], Options(restrict_to=("n1", "n2"))),
        (["--restrict-allocation-to=n1,,"], Options(restrict_to=("n1",))),
        (["--restrict-allocation-to="], Options(restrict_to=())),
        (["--static-kvm-node-memory=0"], Options(kvm_memory=0)),
        (["--static-kvm-node-memory=2048"], Options(kvm_memory=2048)),
        # What only changes what hail prints is no news to anybody.
        (["-v", "--verbose", "-q", "--quiet", "-p", "--print-nodes=name"], Options()),
        (["--x", "-y", "--z=1"], Options(ignored=("--x", "-y", "--z=1"))),
        # Without the value it needs an option means nothing.
        (["--restrict-allocation-to"], Options(ignored=("--restrict-allocation-to",))),
        (["--static-kvm-node-memory"], Options(ignored=("--static-kvm-node-memory",))),
        (["--mond"], Options(mond=True)),
        (["--mond=yes"], Options(mond=True)),
        (["--mond=no"], Options()),
        (["--mond-xen"], Options(mond_xen=True)),
        (["--mond", "--mond-xen"], Options(mond=True, mond_xen=True)),
        (["--mond-data=/a=b"], Options(mond=True, mond_data="/a=b")),
        (["--mond-data=x", "--mond=no"], Options(mond_data="x")),
        (["--mond-time-limit=0.5"], Options(mond_time_limit=0.5)),
        (["--mond-time-limit=600"], Options(mond_time_limit=600)),
        (["--ignore-dynu"], Options(ignore_dynu=True)),
        # The last one counts.
        (["--mond", "--mond=no"], Options()),
        (["--static-kvm-node-memory=1", "--static-kvm-node-memory=2"], Options(kvm_memory=2)),
    ],
    ids=lambda value: " ".join(value) or "none" if isinstance(value, list) else "",
)
def test_options(arguments: list[str], options: Options) -> None:
    assert parse_options(arguments) == options


@pytest.mark.parametrize("value", ["", "-1", "1.5", "4G", "\u0663", str(2**40 + 1), "9" * 5000])
def test_memory_that_is_no_number_of_mib(value: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_options([f"--static-kvm-node-memory={value}"])
    (fault,) = caught.value.faults
    start = "option --static-kvm-node-memory: a number of MiB is expected, found '"
    assert fault.startswith(start + value[:70])
    assert len(fault) < 200


@pytest.mark.parametrize(
    ("argument", "fault"),
    [
        ("--mond=", "option --mond: 'yes' or 'no' is expected, found ''"),
        ("--mond=YES", "option --mond: 'yes' or 'no' is expected, found 'YES'"),
        ("--mond-data", "option --mond-data: the name of a file is expected"),
        ("--mond-data=", "option --mond-data: the name of a file is expected"),
    ],
)
def test_load_options_at_fault(argument: str, fault: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_options([argument])
    assert caught.value.faults == (fault,)


@pytest.mark.parametrize(
    "value", [None, "", "0", "0.0", "-1", "5s", "nan", "1e2", "600.1", ".", "\u0663", "9" * 5000]
)
def test_time_limit_that_is_no_number_of_seconds(value: str | None) -> None:
    argument = "--mond-time-limit" + ("" if value is None else f"={value}")
    with pytest.raises(BadInput) as caught:
        parse_options([argument])
    (fault,) = caught.value.faults
    assert fault.startswith("option --mond-time-limit: a number of seconds up to 600 is expected")
    assert len(fault) < 200


@pytest.mark.parametrize(
    ("arguments", "measured"),
    [
        ([], False),
        (["--mond-xen"], False),
        (["--mond"], True),
        (["--mond-data=x"], True),
        (["--mond", "--ignore-dynu"], False),
        (["--ignore-dynu", "--mond-data=x"], False),
    ],
    ids=lambda value: " ".join(value) or "none" if isinstance(value, list) else "",
)
def test_whether_load_is_measured(arguments: list[str], measured: bool) -> None:
    assert parse_options(arguments).measured is measured


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--mond"], ["--mond"]),
        (["--mond", "--mond-xen"], ["--mond", "--mond-xen"]),
        (["--mond", "--ignore-dynu"], []),
        (["--mond-xen"], []),
        (["--mond-data=x"], []),
    ],
    ids=lambda arguments: " ".join(arguments) or "none",
)
def test_load_options_for_another_allocator(arguments: list[str], expected: list[str]) -> None:
    assert list(written(parse_options(arguments))) == expected


def test_every_fault_is_named() -> None:
    with pytest.raises(BadInput) as caught:
        parse_options(["--text-data=x", "--simulate=p,1,1,1,1", "-t", "--static-kvm-node-memory=x"])
    found = [fault.split(":")[0] for fault in caught.value.faults]
    names = ("--text-data", "--simulate", "-t", "--static-kvm-node-memory")
    assert found == [f"option {name}" for name in names]


def test_ignored_options_are_noted_in_the_answer() -> None:
    options = ("--monday=yes", "--bogus")
    plain, noted = answer(message()), answer(message(), *options)
    note = " (options ignored: --monday=yes --bogus)"
    assert noted == {**plain, "info": plain["info"] + note}


def test_restriction_overrides_the_one_of_the_request() -> None:
    sent = message()
    sent["request"]["restrict-to-nodes"] = ["n1.test"]
    assert answer(sent)["result"] == ["n1.test"]
    assert answer(sent, "--restrict-allocation-to=n2.test")["result"] == ["n2.test"]


def test_memory_of_a_kvm_node() -> None:
    sent = message()
    sent["enabled_hypervisors"] = ["kvm"]
    sent["request"] = {"type": "allocate", **wanted("new.test"), "memory": 14000}
    for node in sent["nodes"].values():
        node["free_memory"] = 16000
    assert answer(sent)["success"] is False
    assert answer(sent, "--static-kvm-node-memory=0", "--no-capacity-checks")["success"] is True
