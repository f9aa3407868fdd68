"""Other versions of lockfast, whose workers share an engine with those of this version.

`c0ff680` is the last commit that stored no format number. It was never released, so this version
and that one only have to refuse each other. `further-field` is this version with one field more
that it can read, which it does not write yet: the two must work side by side, as two releases that
follow one another do.

`python -m tests.robustness redis --previous c0ff680` plays a scenario with both.
"""
