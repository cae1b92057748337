"""Rules that luxid takes although they do not do what they seem to: `lint.lint` finds them.

What a predicate can be true of is decided for all opcodes, reasons and job ids at once, with what
is known of the fields' types, or by a job that is made up for the purpose.
"""
