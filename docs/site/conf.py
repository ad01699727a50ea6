"""Settings of Sphinx for the site; docs/site/build.py calls it."""

project = "regard"
author = "The regard maintainers"
copyright = "The regard maintainers, Apache-2.0"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "regard"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
# a page opened from a folder may not fetch the pages that it quotes
html_show_search_summary = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# quotation marks of code and recipes are copied as they are
smartquotes = False
language = "en"
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]
myst_links_external_new_tab = False
# a lexer that knows only most of a language is no mistake of a page
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
