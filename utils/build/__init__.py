"""From lesson sources to notebooks, slides and the website, and from a checkout to a running course.

`source`, `solutions`, `notebooks`, `lint`: from notebooks/src to the lecture and student notebooks. `slides`, `site`,
`documents`, `results`: slide decks, website, tables of stored results. `bootstrap`, `environment`, `lab`, `downloads`: setup,
JupyterLab, published files.
"""
