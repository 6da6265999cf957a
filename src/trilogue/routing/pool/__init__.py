"""The accounts: which one is next, and what a failure does to it. No I/O, no async; clock and randomness are injected.

`account_queues` finds the next account, `conversation` the one that a conversation belongs to, `health` applies
failures, `plan` makes the attempts of one request, `pool` and `pools` hold the accounts. What happens is reported as
`changes`, which `trilogue.upstreams.state` stores.

How a gateway uses it, for every protocol, streamed or not:

    pools = Pools(specs, settings, rng=SystemRandom())        # one per process
    state = StateSync(pools, RecordFile(folder / ACCOUNTS_FILE), now())
    ...
    state.sync(now())
    plan = pools.begin(now(), request_id, [(target.provider, target.model) for target in targets],
                       sticky=sticky_key(call.body, call.client, call.headers), tokens=len(call.body) // 4)
    try:
        while (attempt := plan.next(now())) is not None or (pause := plan.pause(now())):
            if attempt is None:
                await sleep(pause)                            # no account is available, but one will be soon
                continue
            await sleep(plan.wait)
            try:
                usage, response_id = await send(attempt)      # translated anew; attempt.strip: without reasoning
            except ClientError:
                plan.refused(now())                           # this target's protocol cannot express the request
            except UpstreamError as error:
                if not plan.failed(now(), error, committed=responder.started):
                    raise
            else:
                plan.finished(now(), usage, response_id)
                return
            state.sync(now())
        raise UpstreamFailure(plan.ending(now()))
    finally:
        plan.released(now())                    # gives the account back if the client disconnected
        state.sync(now())
        log.info("decision", **plan.decision.as_dict())

`attempt.proxy` is a position in the account's `proxies`, or in the provider's if the account has none.
`pools.overview`, `find`, `enable`, `disable`, `reset`, and `set_balance` are for people.
"""
