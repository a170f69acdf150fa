"""Registries and image layouts: resolve, fetch, list what refers to an image, push and copy.

Everything a registry answers is taken for hostile until its digest says otherwise. Synchronous throughout.
"""
