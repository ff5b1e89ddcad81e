"""`make generate`: writes what is made from the program, and from README.md, into the pages."""

from tools.reference.places import ROOT, filled, pages

if __name__ == "__main__":
    for page in pages():
        made = filled(page)
        if made != page.read_text():
            page.write_text(made)
            print(f"wrote {page.relative_to(ROOT)}")
