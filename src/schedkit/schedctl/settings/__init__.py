"""What users may decide.

`table` declares every setting once; `flags` and `config_files` follow. `durations` are times as users write
them. `user_folders`: the home of whoever calls, and where `schedctl` keeps that user's data.
"""
