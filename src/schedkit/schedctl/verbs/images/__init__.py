"""Verbs about images, none of which needs a kernel with sched_ext. `elf_libraries`.

What `package` takes along with a program.
"""
