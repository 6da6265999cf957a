"""What a refused request teaches: reads the error of an upstream and says which parameter to change.

Remembering it is up to `pool`, sending the request again up to `gateway`.
"""
