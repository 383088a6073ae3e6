"""The things Mizzen talks about, as frozen values. docs/glossary.md holds one line for each word."""
