"""Makes the documents beside this file with other people's writers:

pip install python-docx openpyxl python-pptx odfpy reportlab pillow
python tests/goldens/documents/make_documents.py
"""

from pathlib import Path

from docx import Document
from odf.opendocument import OpenDocumentText
from odf.table import Table, TableCell, TableRow
from odf.text import H, List, ListItem, P
from openpyxl import Workbook
from PIL import Image, ImageDraw
from pptx import Presentation
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

HERE = Path(__file__).parent


def word() -> None:
    made = Document()
    made.add_heading("Ferry report", 1)
    made.add_paragraph("The ferry Astrid carried 412 people in March — ä, ß, 日本.")
    made.add_heading("Crew", 2)
    for name in ("Ida", "Jonas"):
        made.add_paragraph(name, style="List Bullet")
    table = made.add_table(rows=2, cols=2)
    for row, texts in zip(table.rows, (("Month", "People"), ("March", "412 | full")), strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    made.save(HERE / "report.docx")


def sheet() -> None:
    made = Workbook()
    first = made.active
    first.title = "Fares"
    for row in (("Route", "Fare"), ("North", 12.5), ("South", None), ("West", 7)):
        first.append(row)
    first["D2"] = "a note"
    made.create_sheet("Empty")
    made.save(HERE / "fares.xlsx")


def slides() -> None:
    made = Presentation()
    for title, text in (("Opening", "Doors at nine"), ("Plan", "Build a quay\nPaint it")):
        slide = made.slides.add_slide(made.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    made.save(HERE / "slides.pptx")


def open_text() -> None:
    made = OpenDocumentText()
    made.text.addElement(H(outlinelevel=1, text="Harbour"))
    made.text.addElement(P(text="Ships wait outside."))
    items = List()
    for text in ("rope", "anchor"):
        item = ListItem()
        item.addElement(P(text=text))
        items.addElement(item)
    made.text.addElement(items)
    table = Table()
    for texts in (("Berth", "Ship"), ("1", "Astrid")):
        row = TableRow()
        for text in texts:
            cell = TableCell()
            cell.addElement(P(text=text))
            row.addElement(cell)
        table.addElement(row)
    made.text.addElement(table)
    made.save(str(HERE / "harbour.odt"))


def pdf() -> None:
    """Three pages: text, a scan, text."""
    scan = Image.new("L", (400, 200), 255)
    ImageDraw.Draw(scan).text((20, 80), "SCANNED WORDS", fill=0)
    scan.save(HERE / "scan.png")
    canvas = Canvas(str(HERE / "pages.pdf"), pagesize=A4, invariant=1)
    canvas.drawString(72, 760, "The keeper of the light is Marta Olsen.")
    canvas.drawString(72, 740, "She has kept it since 1981.")
    canvas.showPage()
    canvas.drawImage(str(HERE / "scan.png"), 72, 500)
    canvas.showPage()
    canvas.drawString(72, 760, "The last page names the boat: Astrid.")
    canvas.save()
    (HERE / "scan.png").unlink()


if __name__ == "__main__":
    for make in (word, sheet, slides, open_text, pdf):
        make()
