"""Write the signatures of onnx's operators that the frontend stores, ``python tools/make_onnx_signatures.py``.

They come from the installed onnx. With another release, the frontend asks onnx itself, which takes longer.
"""

from __future__ import annotations

from onnx import __version__, defs

from costcore.frontends.onnx.schema import STORED, Signature, signature_of, text_of


def content() -> str:
    """Return the content of the file."""
    found: dict[str, list[Signature]] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(signature_of(schema))
    newest_first = {name: sorted(each, key=lambda one: -one.since) for name, each in sorted(found.items())}
    return "".join([f"{__version__}\n", *(f"{name} {text_of(each)}\n" for name, each in newest_first.items())])


if __name__ == "__main__":
    STORED.write_text(content(), encoding="utf-8")
