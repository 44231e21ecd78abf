"""TLS: canal's modes and key stores as `ssl` of a shard, whose files are PEM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from canal_group.conf.sentence import shown
from canal_group.merge.file_name import file_name
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report

_MODES = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")


def ssl_of(view: View, master: str, shard: str, folder: Path, report: Report) -> dict[str, Any] | None:
    """Return the `ssl` of a source; None: the connection is not encrypted.

    Args:
        view: what canal's files say.
        master: the source's prefix of keys.
        shard: name of the shard, of which files are named.
        folder: where the certificates will be.
        report: takes the answers.

    Raises:
        ConfigError: there is no such mode.
    """
    text, entry = view.text(f"{master}.sslMode"), view.entry(f"{master}.sslMode")
    mode = (text or "DISABLED").upper()
    if mode not in _MODES:
        assert entry is not None
        raise entry.wrong(f"be one of {', '.join(_MODES)}", f"is {shown(text)}")
    stores = [view.given(f"{master}.{kind}CertificateKeyStoreUrl") for kind in ("trust", "client")]
    if mode == "DISABLED":
        report.setting(entry, "no `shards[].ssl`: the connection is not encrypted")
        for store in stores:
            report.note(store, "not used: sslMode is DISABLED")
        return None
    ssl: dict[str, Any] = {}
    if mode in ("PREFERRED", "REQUIRED"):
        ssl["verify"] = False
    trust, client = stores
    if trust is not None and mode not in ("PREFERRED", "REQUIRED"):
        ssl["ca"] = str((folder / file_name(f"{shard}-ca.pem")).absolute())
        report.act(
            trust,
            "a key store of Java is not read. Write its certificates into the file of `ssl.ca`: keytool -list"
            f" -rfc -keystore STORE > {ssl['ca']}",
        )
    elif trust is not None:
        report.note(trust, f"not used, as in canal: {mode} does not verify the server")
    if client is not None:
        certificate, key = (
            str((folder / file_name(f"{shard}-{part}.pem")).absolute()) for part in ("cert", "key")
        )
        ssl |= {"cert": certificate, "key": key}
        report.act(
            client,
            "a key store of Java is not read. Export it as PKCS12 (keytool -importkeystore"
            f" -deststoretype PKCS12), then: openssl pkcs12 -in STORE -nokeys -out {certificate}; openssl"
            f" pkcs12 -in STORE -nocerts -nodes -out {key}",
        )
    if mode == "PREFERRED":
        report.act(entry, "`ssl.verify: false`: a server without TLS is refused. Remove `ssl` if it has none")
    elif mode == "VERIFY_CA":
        report.act(entry, "`ssl.verify: true`, which also requires that the certificate is for `host`")
    else:
        report.setting(entry, f"`ssl.verify: {str(mode == 'VERIFY_IDENTITY').lower()}`")
    return ssl
