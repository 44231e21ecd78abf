"""What an operator edits: the presets beside this file, and the typed settings that read an instance file.

- `value` and `secret`: what a single setting can hold.
- `shard_settings` and `settings`: the tree of settings, frozen; wrong values cannot be constructed.
- `sentence`: what is wrong with a file, in one sentence.
- `load`: instance file + preset -> `InstanceSettings`.
"""
