"""`python -m tests.golden.make`: writes the samples that are missing, and never overwrites one."""

from tests.golden.samples import write_missing

if __name__ == "__main__":
    for path in write_missing():
        print(f"wrote {path.name}")
