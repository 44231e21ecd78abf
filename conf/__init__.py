"""Configuration: the presets in this folder, and the typed settings that an instance file is read into.

- `value` and `secret`: the types of single settings.
- `shard_settings` and `settings`: the tree of settings, frozen; wrong values cannot be constructed.
- `sentence`: the error message of an invalid file, in one sentence.
- `load`: instance file + preset -> `InstanceSettings`.
"""
