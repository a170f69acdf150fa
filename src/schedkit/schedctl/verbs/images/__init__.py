"""Verbs about images, none of which needs a kernel with sched_ext.

`elf_libraries`: what `package` takes along with a program.
"""
