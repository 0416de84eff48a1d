-- purpose: What models have cost, by day, service and model.
-- column: day (date) day on which the responses began, UTC
-- column: service (text) service that asked, empty where none is named
-- column: model (text) model, empty where none is named
-- column: responses (bigint) responses
-- column: input_tokens (bigint) tokens that the model read
-- column: cached_tokens (bigint) those of them that came from a cache
-- column: output_tokens (bigint) tokens that it wrote
-- column: money (double) what they cost, in the currency of the prices; empty without a price
SELECT
    day,
    coalesce(service, '') AS service,
    coalesce(name, '') AS model,
    count(*) AS responses,
    CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(cached_tokens) AS BIGINT) AS cached_tokens,
    CAST(sum(output_tokens) AS BIGINT) AS output_tokens,
    round(sum(money), 6) AS money
FROM turns
WHERE kind = 'model'
GROUP BY ALL
ORDER BY day, money DESC NULLS LAST, service, model
