"""A development CA: what it makes is signed by it, names its hosts, and is for nobody else to read."""

from pathlib import Path

import pytest
from cryptography import x509

from gavelx.errors import InputFileError
from gavelx.rpc.certificates import make_certificates


def test_certificates_are_signed_name_their_hosts_and_stay(tmp_path: Path) -> None:
    pairs = make_certificates(tmp_path, ["example.org", "10.0.0.1"], ["one"], days=2.0)
    loaded = {name: x509.load_pem_x509_certificate(pair.certificate.read_bytes()) for name, pair in pairs.items()}
    for name in ("server", "one"):
        loaded[name].verify_directly_issued_by(loaded["ca"])
    names = loaded["server"].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["example.org"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    for pair in pairs.values():
        assert pair.key.stat().st_mode & 0o077 == 0
    texts = {name: pair.certificate.read_bytes() for name, pair in pairs.items()}
    again = make_certificates(tmp_path, ["example.org"], ["one", "two"])
    assert {name: again[name].certificate.read_bytes() for name in texts} == texts
    assert again["two"].certificate.exists()


def test_a_folder_with_something_else_is_not_taken_for_a_ca(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    with pytest.raises(InputFileError, match="cannot be read as a CA"):
        make_certificates(tmp_path, ["localhost"], [])
