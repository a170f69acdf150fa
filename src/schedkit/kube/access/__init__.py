"""How the API server is found, and who we are there.

`config`: from inside a pod, or by `kubeconfigs`. `credentials`: tokens that are given, read from files, or
made by a program.
"""
