"""Stored responses, conversations, background jobs, kept reasoning, and the owners of objects at vendors.

`ResponseStore` has the operations, on SQLite, PostgreSQL or memory; `StoreService` is how an event loop uses it.

    store = ResponseStore(database_of(setting), keys, StoreLimits())     # connects on first use; `check()` does it now
    service = StoreService(store)                                   # in the worker, after the fork, inside the loop
    await service.close()                                           # finishes what waits

A request names the client key that sent it as `owner`; everything is found by owner and id, and another owner's id is
`NotFound`, like an unknown one. `service.read` and `service.write` take a method of the store and its arguments:

    # previous_response_id: NotFound is a 400 `previous_response_not_found`
    turns = await service.read(store.responses.chain, owner, previous)
    history = [item for turn in turns for item in (*turn.input, *output_items(turn.body))]
    origin = await service.read(store.responses.origin, owner, previous)    # the account that a follow-up must go to

    # the end of a response, before its terminal event leaves; StoreError is an error of the request
    response = StoredResponse(owner=owner, id=..., status="completed", body=..., input=..., previous=previous)
    await service.write(store.responses.put, response)

    # conversation: one request at a time, others wait; ConversationLocked is a 409
    lease = await service.lock(owner, conversation)
    items = await service.read(store.conversations.all_items, owner, conversation)
    await service.write(store.responses.put, response, Append(lease, new_items))     # both or neither; ends the lease
    service.unlock(lease)                                                            # if the request failed

    # background: true
    running = RunningJobs(service)              # reports, stops what others cancel, fails the jobs of dead workers
    running.add((owner, id), stop)
    await service.write(store.jobs.start, queued, running.worker)
    await service.write(store.jobs.add_events, (owner, id), running.worker, events)  # every 50 ms or so
    await service.write(store.jobs.save, completed, running.worker, last_events)     # the response with its last event
    found = await service.read(store.jobs.events, owner, id, starting_after)         # to stream again; repeat

    # reasoning that the client cannot return
    await service.write(store.reasoning.keep, [StoredReasoning(owner, call_id, data)])
    kept = await service.read(store.reasoning.find, owner, call_ids)

    # files, batches and other objects that a vendor keeps: only whose they are
    await service.write(store.objects.note, [identifier], ObjectOwner(provider, owner))
    owners = await service.read(store.objects.owners, ids)

`store.owners` has statistics, export, deletion by owner and pruning, for commands. The service prunes by itself.

Content is encrypted and bound to its owner and id. Limits are bytes per owner and in all; the oldest are deleted first.

    interface       the types and errors
    service         the front for event loops
    running         the jobs of one worker: reports, cancellations, and the jobs of workers that died
    store           the parts over one database
    responses, conversations, jobs, reasoning, objects, owners      the parts
    usage           limits and expiry
    storage         transactions
    contents        encryption
    schema          the tables
"""
