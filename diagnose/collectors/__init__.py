"""The built-in collectors; `shared` and `smart_disks` hold what they are made of.

The pages about collectors in ``docs/reference`` have a section for each.
"""
