"""`python -m tests.rows.make`: writes docs/results/rows.md, which has every row of the specifications and who shows it."""

from tests.rows.table import HOUSE, PAGE, page

if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    print(f"wrote {PAGE.relative_to(HOUSE)}")
