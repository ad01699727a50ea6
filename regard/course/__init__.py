"""the course "Attention, every number": chapters → steps, what they print, notebooks.

chapter_files   the files of `chapters/` → prose and code, in English or in Chinese
execution       a chapter → its steps with what each printed and drew
notebooks       a chapter → a notebook
"""
