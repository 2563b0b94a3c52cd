-- Whoever believes credentials for a moment is told when a secret may have ended, by whatever way that came about.
CREATE FUNCTION announce_secrets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY userdir_secrets;
    RETURN NULL;
END $$;

CREATE TRIGGER app_secrets_announce AFTER UPDATE OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();
