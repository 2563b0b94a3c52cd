-- Backends and operators may change the login email and the external id of a user, which is recorded.

-- step: adds the action of the audit trail
ALTER TYPE audit_action ADD VALUE IF NOT EXISTS 'update';
