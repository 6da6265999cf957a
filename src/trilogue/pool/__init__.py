"""The account pool: pure decisions, with the clock and randomness injected. No I/O, no async.

How a gateway uses it, for every protocol, streamed or not:

    pools = config.pools(SystemRandom())        # one per process
    keeper = StateSync(pools, state_directory(os.environ) / FILE_NAME, now())   # if config.pool.persist
    ...
    keeper.sync(now())
    journey = pools.begin(now(), request_id, [(target.provider, target.model) for target in targets],
                          sticky=sticky_key(call.body, call.client, call.headers), tokens=len(call.body) // 4)
    try:
        while (step := journey.next(now())) is not None or (pause := journey.pause(now())):
            if step is None:
                await sleep(pause)                            # nobody else can answer, and someone is back soon
                continue
            await sleep(journey.wait)
            try:
                usage, response_id = await attempt(step)      # translated anew; step.strip: without reasoning
            except ClientError:
                journey.refused(now())                        # cannot be said in this target's protocol
            except UpstreamError as error:
                if not journey.failed(now(), error, committed=responder.started):
                    raise
            else:
                journey.finished(now(), usage, response_id)
                return
            keeper.sync(now())
        raise UpstreamFailure(journey.ending(now()))
    finally:
        journey.released(now())                 # if the client left the account is free again; else nothing happens
        keeper.sync(now())
        log.info("decision", **journey.decision.as_dict())

`step.proxy` is a position in the account's `proxies`, or in the provider's if it has none of its own.
`with_headers(failure, reset_delay(headers, now()))` takes the time from rate-limit headers where there is no
retry-after. `pools.overview`, `find`, `enable`, `disable`, `reset`, `set_balance` and `recent` are for people.
"""

from trilogue.pool.changes import Adjusted, Bound, Change, Cooled, Erred, Learned, Switched, Tally
from trilogue.pool.choice.account import Account, AccountRequest, Lease
from trilogue.pool.choice.ready import Skipped
from trilogue.pool.choice.sticky import response_key, sticky_key
from trilogue.pool.decision.record import Attempt, Considered, Decision, Recent
from trilogue.pool.decision.retry_budget import Budget
from trilogue.pool.health.classify import ROWS, Action, Scope, Verdict, classify
from trilogue.pool.health.health import growing_delay, named_delay, reset_delay
from trilogue.pool.plan import AttemptPlan, with_headers
from trilogue.pool.pool import Pool, Survey
from trilogue.pool.pools import Pools
from trilogue.pool.settings import (
    AccountLimits,
    AccountSpec,
    PoolSettings,
    PoolsSettings,
    Price,
    ProviderSpec,
    RetryBudget,
    RetryRule,
)

__all__ = [
    "ROWS",
    "Account",
    "AccountLimits",
    "AccountRequest",
    "AccountSpec",
    "Action",
    "Adjusted",
    "Attempt",
    "AttemptPlan",
    "Bound",
    "Budget",
    "Change",
    "Considered",
    "Cooled",
    "Decision",
    "Erred",
    "Learned",
    "Lease",
    "Pool",
    "PoolSettings",
    "Pools",
    "PoolsSettings",
    "Price",
    "ProviderSpec",
    "Recent",
    "RetryBudget",
    "RetryRule",
    "Scope",
    "Skipped",
    "Survey",
    "Switched",
    "Tally",
    "Verdict",
    "classify",
    "growing_delay",
    "named_delay",
    "reset_delay",
    "response_key",
    "sticky_key",
    "with_headers",
]
