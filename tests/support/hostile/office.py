"""Office documents made of nothing but archives of XML, for tests of readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

RELS = "word/_rels/document.xml.rels"
_SCHEMA = "http://schemas.openxmlformats.org"
_KIND = f"{_SCHEMA}/officeDocument/2006/relationships"


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """Return an archive of files by their names."""
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return made.getvalue()


def relationships(*links: str) -> str:
    """Return the relationships of a document with links, a style and a picture elsewhere."""
    ours = "".join(
        f'<Relationship Id="rId{number}" Type="{_KIND}/hyperlink" Target="{escape(link)}"'
        ' TargetMode="External"/>'
        for number, link in enumerate(links)
    )
    others = (
        f'<Relationship Id="s" Type="{_KIND}/styles" Target="styles.xml"/>'
        f'<Relationship Id="p" Type="{_KIND}/image" Target="http://pixel.example/p.png"'
        ' TargetMode="External"/>'
    )
    root = f'<Relationships xmlns="{_SCHEMA}/package/2006/relationships">'
    return f"{root}{ours}{others}</Relationships>"


def docx(*links: str) -> bytes:
    """Return a document of Word with links."""
    runs = "".join(f'<w:hyperlink r:id="rId{number}"/>' for number in range(len(links)))
    types = f'<Types xmlns="{_SCHEMA}/package/2006/content-types"/>'
    return archive(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": relationships(),
            "word/document.xml": f"<w:document><w:body><w:p>{runs}</w:p></w:body></w:document>",
            RELS: relationships(*links),
        }
    )


def odt(links: Sequence[str]) -> bytes:
    """Return a document of LibreOffice with links."""
    anchors = "".join(
        f'<text:a xlink:type="simple" xlink:href="{escape(link)}">a</text:a>' for link in links
    )
    return archive(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": f"<office:text><text:p>{anchors}</text:p></office:text>",
        }
    )
