"""From the client's request to the upstream's: admission, limits, model, stored turns, translation, learned changes.

Also forms and files for batches, the objects that a request names (`named`), and whose they are (`ownership`,
`made_objects`). What comes back is handled in `gateway.response`.
"""
