-- How many requests each project has sent, hour by hour, for the charts of the dashboard. Each process adds what it has counted, twice a minute.

-- step: tallies of requests by the hour
-- locks: projects (SHARE ROW EXCLUSIVE)
CREATE TABLE "request_hours" (
    "project_id" INTEGER NOT NULL,
    -- When it began.
    "hour" TIMESTAMPTZ(3) NOT NULL,
    "requests" INTEGER NOT NULL,
    -- Those of them whose answer was an error or had one.
    "failures" INTEGER NOT NULL,
    -- Logins and registrations that were counted.
    "logins" INTEGER NOT NULL,
    CONSTRAINT "request_hours_pkey" PRIMARY KEY ("project_id", "hour"),
    CONSTRAINT "request_hours_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id") ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 50);
