-- Backends manage webhooks by a scope that no secret has until an operator gives it: a webhook outlives the secret with which it was added.

-- step: a word for the scope
ALTER TYPE "secret_scope" ADD VALUE 'webhooks';
