"""The report: one HTML page that needs no network, and the same as Markdown.

Beside it every table as CSV and Markdown, every figure as SVG and PDF, all numbers as JSON.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsa.analysis.paper import beyond as extra
from hsa.analysis.paper import derived, figures, published, tables
from hsa.analysis.paper.matrix import Matrix
from hsa.analysis.paper.reasons import reasons
from hsa.analysis.paper.tables import Cell, Table
from hsa.analysis.redact import Door, csv_cell, markdown_cell
from hsa.analysis.statistics import median

TITLE = "The cost of saying hello, measured from the wire"
SCHEMA = "hsa/paper/v1"
IN_SHORT = ("path", "path-slopes", "tls", "http2", "oauth")
"""Tables beyond the study whose statements stand at the top."""
LACKING_SHOWN = 12
"""Cells that are not there, by name; the rest as a number."""


@dataclass(slots=True)
class Report:
    """Everything that is written."""

    title: str
    lead: str
    summary: list[str]
    problems: list[str]
    sections: list[tuple[str, list[Table | Figure]]]
    made: list[tuple[str, str]]

    def tables(self) -> Iterator[Table]:
        for _, parts in self.sections:
            yield from (part for part in parts if isinstance(part, Table))

    def figures(self) -> Iterator[Figure]:
        for _, parts in self.sections:
            yield from (part for part in parts if isinstance(part, Figure))


@dataclass(slots=True)
class Figure:
    name: str
    caption: str
    files: dict[str, bytes]


def build(matrix: Matrix, controls: dict[str, Matrix] | None = None, *, door: Door) -> Report:
    """The report on the recordings; `controls` are recordings made to remove a reason for a difference, by its name.
    Texts of captures pass `door`."""
    kind = _kind(matrix)
    study = tables.every(matrix, kind)
    text = derived.in_text(matrix, kind)
    drawn = [Figure(name, caption, files) for name, caption, files in figures.every(matrix, kind)]
    beyond: list[Table | Figure] = [
        table
        for table in (
            *extra.every(matrix, kind),
            derived.unseen(matrix, kind),
            derived.amortization(matrix, kind),
        )
        if table is not None and table.rows
    ]
    rerun = _from_rows(matrix)
    sections: list[tuple[str, list[Table | Figure]]] = [
        ("Tables", list(study)),
        ("Figures", list(drawn)),
        ("Text", [text]),
    ]
    why = reasons(matrix, controls or {}, kind)
    if why.rows:
        sections.insert(0, ("Differences", [why]))
    if rerun:
        sections.append(("Published, re-run, from the wire", [rerun]))
    if beyond:
        sections.append(("Beyond the study", beyond))
    report = Report(
        title=TITLE,
        lead="A study measured the handshakes of MCP, A2A and ACP by instrumenting clients. Here the same cells are"
        " recorded and measured from their packets, and where the packets cannot tell, by the client's own clock.",
        summary=[*_summary([*study, text]), *_statements(beyond)],
        problems=[*matrix.problems, *_lacking(matrix, kind, beyond)],
        sections=sections,
        made=_made(matrix),
    )
    return _clean(report, door)


def write(report: Report, folder: Path) -> list[Path]:
    """Write the files below `folder`, which is there; what stood under their names is replaced. Gives their paths."""
    made: list[Path] = []

    def put(name: str, content: str | bytes) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        made.append(path)

    put("report.html", html(report))
    put("report.md", markdown(report))
    put("report.json", json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n")
    for table in report.tables():
        put(f"tables/{table.name}.csv", as_csv(table))
        put(f"tables/{table.name}.md", "\n".join(_markdown_table(table)) + "\n")
    for figure in report.figures():
        for form, content in figure.files.items():
            put(f"figures/{figure.name}.{form}", content)
    return made


def html(report: Report) -> str:
    """One page; every text is escaped by the template engine."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    environment = Environment(loader=PackageLoader("hsa.analysis.paper"), autoescape=True)

    def part(one: Table | Figure) -> dict[str, Any]:
        if isinstance(one, Table):
            return {"table": one}
        svg = one.files["svg"].decode()
        return {
            "name": one.name,
            "caption": one.caption,
            "svg": Markup(svg[svg.index("<svg") :]),
        }  # drawn here: no foreign text

    return environment.get_template("report.html").render(
        title=report.title,
        lead=report.lead,
        source=published.SOURCE,
        summary=report.summary,
        problems=report.problems,
        sections=[(name, [part(one) for one in parts]) for name, parts in report.sections],
        made=report.made,
        shown=shown,
        published=published_text,
    )


def markdown(report: Report) -> str:
    lines = [f"# {report.title}", "", report.lead, "", f"Published values: {published.SOURCE}.", ""]
    for title, said in (("What is missing", report.problems), ("In short", report.summary)):
        if said:
            lines += [f"## {title}", "", *(f"* {markdown_cell(line)}" for line in said), ""]
    for section, parts in report.sections:
        lines += [f"## {section}", ""]
        for part in parts:
            if isinstance(part, Figure):
                lines += [f"![{part.caption}](figures/{part.name}.svg)", "", part.caption, ""]
            else:
                lines += [f"### {part.title}", ""]
                lines += [f"**{markdown_cell(part.statement)}**", ""] if part.statement else []
                lines += [part.about, "", *_markdown_table(part), ""]
                lines += [line for note in part.notes for line in (note, "")]
    lines += ["## How it was made", "", *(f"* {name}: {markdown_cell(value)}" for name, value in report.made), ""]
    return "\n".join(lines)


def as_json(report: Report) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "source": published.SOURCE,
        "summary": report.summary,
        "problems": report.problems,
        "made": dict(report.made),
        "tables": {
            table.name: {
                "title": table.title,
                "statement": table.statement or None,
                "rows": [
                    {
                        **dict(zip(table.labels, labels, strict=True)),
                        "values": {
                            name if table.columns.count(name) == 1 else f"{name} {i}": _cell_json(cell)
                            for i, (name, cell) in enumerate(zip(table.columns, cells, strict=True))
                        },
                    }
                    for labels, cells in table.rows
                ],
            }
            for table in report.tables()
        },
    }


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "published": cell.published,
        "difference": cell.difference,
        "verdict": cell.verdict,
    }


def as_csv(table: Table) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = [
        part
        for column in table.columns
        for part in (column, f"{column}: low", f"{column}: high", f"{column}: published")
    ]
    writer.writerow([*table.labels, *names])
    for labels, cells in table.rows:
        flat = [value for cell in cells for value in (cell.value, cell.low, cell.high, cell.published)]
        writer.writerow([csv_cell(v) if isinstance(v, str) else "" if v is None else v for v in (*labels, *flat)])
    return buffer.getvalue()


def _markdown_table(table: Table) -> Iterator[str]:
    yield "| " + " | ".join((*table.labels, *table.columns)) + " |"
    yield "|" + "|".join(["---"] * len(table.labels) + ["---:"] * len(table.columns)) + "|"
    for labels, cells in table.rows:
        said = [shown(cell) + (f" ({published_text(cell)})" if cell.published is not None else "") for cell in cells]
        yield "| " + " | ".join(markdown_cell(text) for text in (*labels, *said)) + " |"


def shown(cell: Cell) -> str:
    """A value for people: unknown is `-`."""
    if cell.value is None or isinstance(cell.value, str):
        return cell.value or "-"
    text = number(cell.value, cell.digits)
    if cell.low is not None and cell.high is not None:
        text += f" [{number(cell.low, cell.digits)}, {number(cell.high, cell.digits)}]"
    return text


def published_text(cell: Cell) -> str:
    """The published value, and how ours stands to it."""
    want = cell.published
    if want is None:
        return ""
    text = want if isinstance(want, str) else number(want, cell.digits)
    gap = cell.difference
    if cell.verdict != "differs" or gap is None:
        return f"published {text}"
    return f"published {text}, {'+' if gap > 0 else '-'}{number(abs(gap), cell.digits)}"


def number(value: float, digits: int) -> str:
    if digits == 0 and value != int(value) and abs(value) < 1000:
        return f"{value:,.1f}"
    return f"{value:,.{digits}f}"


def _kind(matrix: Matrix) -> str:
    """The link that the study's tables are read from: the relay's, else whatever was recorded most."""
    kinds = [r.kind for r in matrix.recordings]
    return "relay" if "relay" in kinds else max(sorted(set(kinds)), key=kinds.count)


def _summary(found: list[Table]) -> list[str]:
    lines = []
    for table in found:
        verdicts = [c.verdict for _, cells in table.rows for c in cells if c.verdict is not None]
        if verdicts:
            equal, inside = verdicts.count("equal"), verdicts.count("inside")
            near = verdicts.count("near")
            rest = len(verdicts) - equal - inside - near
            parts = [f"{equal} of {len(verdicts)} values equal the published ones"]
            parts += [f"{inside} more have them inside their interval"] if inside else []
            parts += [f"{near} are within {published.NOISE_MS:g} ms of them, the study's own noise"] if near else []
            parts += [f"{rest} differ"] if rest else []
            lines.append(f"{table.title.partition(':')[0]}: {', '.join(parts)}.")
    return lines


def _statements(parts: list[Table | Figure]) -> list[str]:
    """What the tables on a real link say: the part of the report that the study could not have."""
    return [part.statement for part in parts if isinstance(part, Table) and part.name in IN_SHORT and part.statement]


def _lacking(matrix: Matrix, kind: str, there: list[Table | Figure]) -> list[str]:
    """Cells of the study, and tables beyond it, for which there is no recording."""
    wanted = [(f"{scenario}.{variant}", rtt) for scenario, variant in published.TABLE_2 for rtt in (0.0, 50.0)]
    wanted += [(f"{scenario}.{variant}", 0.0) for scenario, variant in published.TABLE_3]
    without = [f"{cell} at {rtt:g} ms" for cell, rtt in wanted if matrix.get(cell, kind, rtt) is None]
    lines = []
    if without:
        more = f", and {len(without) - LACKING_SHOWN} more" if len(without) > LACKING_SHOWN else ""
        lines.append(f"not recorded, of the study's {len(wanted)} cells: {', '.join(without[:LACKING_SHOWN])}{more}")
    names = {table.name for table in there}
    topics = [title for name, title in extra.TOPICS.items() if name not in names]
    if topics:
        lines.append(f"not recorded, beyond the study: {', '.join(topics)}")
    return lines


def _from_rows(matrix: Matrix) -> Table | None:
    """The same cells in results of the study's harness and in captures."""
    if not any(r.kind == "rows" for r in matrix.recordings):
        return None
    table = Table(
        "three-ways",
        "Median time to ready, by three ways",
        ("scenario", "protocol", "round trip"),
        ("published ms", "re-run ms", "from the wire ms", "RT re-run", "RT from the wire"),
        about="Re-run: results of the study's harness, or of clients instrumented in its way. From the wire: captures,"
        " first SYN to last answer, over a relay as the study's.",
    )
    for (scenario, variant), want in published.TABLE_2.items():
        for rtt, wanted in ((0.0, want.local), (50.0, want.rtt50)):
            rows = matrix.get(f"{scenario}.{variant}", "rows", rtt)
            wire = matrix.get(f"{scenario}.{variant}", "relay", rtt)
            if rows is None:
                continue
            table.add(
                (published.SCENARIOS[scenario], published.VARIANTS[variant], f"{rtt:g} ms"),
                [
                    Cell(wanted, digits=1),
                    tables.timed(rows.values(lambda r: r.client_ms), None),
                    tables.timed([] if wire is None else wire.wire(tables.wire_ms), None),
                    Cell(median(rows.values(lambda r: r.round_trips))),
                    Cell(tables.count(wire, lambda h: h.round_trips, lambda r: None)),
                ],
            )
    return table


def _made(matrix: Matrix) -> list[tuple[str, str]]:
    made = [(name, _line(value)) for name, value in (*matrix.machine.items(), *matrix.made.items())]
    counts: dict[str, int] = {}
    for recording in matrix.recordings:
        counts[recording.link] = counts.get(recording.link, 0) + len(recording.runs)
    made += [(f"measured contacts over {link}", str(n)) for link, n in sorted(counts.items())]
    return made


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    return str(value)


def _clean(report: Report, door: Door) -> Report:
    """Every text through the redaction door."""
    text: Callable[[str], str] = door.text
    for table in report.tables():
        for _, cells in table.rows:
            for cell in cells:
                if isinstance(cell.value, str):
                    cell.value = text(cell.value)
        table.statement = text(table.statement)
        table.rows = [(tuple(map(text, labels)), cells) for labels, cells in table.rows]
    report.problems = list(map(text, report.problems))
    report.made = [(text(name), text(value)) for name, value in report.made]
    return report
