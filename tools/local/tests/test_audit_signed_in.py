"""`icefall audit` of a cluster behind TLS that wants to know who reads: what operators have, and what they get wrong."""

import sys
from dataclasses import replace

import pytest
from secured_broker import MECHANISMS, PASSWORD, USER, SecuredBroker

from icefall_local.audit import AuditFailed, audit
from icefall_local.demo import DemoOptions, Job
from icefall_local.launch import Running
from icefall_local.supervisor import Options
from icefall_local.terminal import Terminal
from icefall_local.workspace import Workspace

RECORDS = 2_000


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A stack whose topic is settled, as it stands on the secured broker, and that broker."""
    workspace, options = Workspace.here(), DemoOptions(RECORDS, stack=Options())
    with Running(workspace, options.stack, print) as running:
        assert Job(running.stack, options, Terminal(sys.stderr)).run().as_json()["ok"]
        broker = SecuredBroker(workspace, tmp_path_factory.mktemp("secured"))
        try:
            broker.copy(running.stack.kafka_bootstrap, running.stack.topic, options.stack.partitions)
            yield replace(running.stack, kafka_bootstrap=broker.secured), broker
        finally:
            broker.stop()


@pytest.fixture
def signing_in(monkeypatch, settled):
    """Signs in from now on, by a mechanism and a password."""

    def sign_in(mechanism, password=PASSWORD, *, trusting=True):
        said = {"SIGN_IN": mechanism, "USERNAME": USER, "PASSWORD": password}
        for key, value in said.items():
            monkeypatch.setenv(f"ICEFALL__AUDIT__{key}", value)
        if trusting:
            monkeypatch.setenv("ICEFALL__NETWORK__CA_BUNDLE", str(settled[1].certificate))

    return sign_in


def tool():
    return Workspace.here().operators_tool_with_tls()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_signs_in_behind_tls_has_every_record_proved(settled, signing_in, mechanism):
    signing_in(mechanism)
    found = audit(settled[0], tool(), "read_committed")
    assert (found.proved, found.records, found.faults) == (True, RECORDS, [])


def test_who_has_the_wrong_password_is_told_so_and_not_the_password(settled, signing_in):
    signing_in("scram-sha-512", "off with her head")
    with pytest.raises(AuditFailed, match="(?i)authentication failed") as refused:
        audit(settled[0], tool(), "read_committed")
    assert "off with her head" not in str(refused.value)


def test_a_broker_of_an_unknown_authority_is_not_believed(settled, signing_in):
    signing_in("scram-sha-512", trusting=False)
    with pytest.raises(AuditFailed, match="(?i)certificate"):
        audit(settled[0], tool(), "read_committed")
