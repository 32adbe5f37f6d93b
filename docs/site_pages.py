"""Pages of the documentation site that lie elsewhere: those of the repository's root, and the API from its docstrings.

MkDocs runs this as a hook. It also fills in the parts that the code knows, and writes llms.txt. Links between files of
the repository work where the files lie; here they are led to the pages of the site. A link to a file that the site does
not have becomes its text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs"))

import llms  # noqa: E402 - only now can they be found
from generated_parts import filled  # noqa: E402

FROM_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_API = re.compile(r"\bapi/([\w.]+)\.md")
"""A page of the reference in mkdocs.yml: the module whose `__all__` it shows."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in docs/."""
    for source, page in FROM_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for package in _API.findall((ROOT / "mkdocs.yml").read_text("utf-8")):
        text = f"# goldspan.{package}\n\n::: goldspan.{package}\n"
        files.append(File.generated(config, f"api/{package}.md", content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Write what language models read."""
    for name, text in (("llms.txt", llms.index()), ("llms-full.txt", llms.full(filled))):
        (Path(config.site_dir) / name).write_text(text, "utf-8")


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Fill in what is made from the code, and lead links to where the files are on the site."""
    here = page.file.src_uri
    lies_in_root = {page: source for source, page in FROM_ROOT.items()}
    source = lies_in_root.get(here, f"docs/{here}")

    def led(link: re.Match[str]) -> str:
        text, target, anchor = link.group(1), link.group(2), link.group(3) or ""
        aim = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        on_site = FROM_ROOT.get(aim, aim.removeprefix("docs/"))
        if files.get_file_from_path(on_site):
            return f"[{text}]({posixpath.relpath(on_site, posixpath.dirname(here) or '.')}{anchor})"
        return text if (ROOT / aim).exists() else link.group()

    return _LINK.sub(led, filled(markdown))
