"""The built-in provider: a scripted model in this process, so that everything can be tried without a key.

`request` reads what is asked, `scripts` is what it says, `respond` chooses, `sample` fills schemas, `model` makes
events of it, and `transport` is the model as an upstream. There is no network here, and no real model.
"""
