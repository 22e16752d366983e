"""What turns lesson sources into things to read, and a checkout into a running course.

`source`, `solutions`, `notebooks`, `lint`: from notebooks/src to the lecture and student notebooks. `slides`, `site`,
`documents`, `results`: decks, website, tables of stored results. `bootstrap`, `environment`, `lab`, `downloads`: setup,
JupyterLab, published files.
"""
