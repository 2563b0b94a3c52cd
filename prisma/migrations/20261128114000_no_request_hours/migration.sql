-- Nothing counts requests in the database any more: the log and the metrics have them. 2.0.0 is the oldest release already.

-- step: drops the requests by the hour
-- locks: projects (ACCESS EXCLUSIVE), request_hours (ACCESS EXCLUSIVE)
DROP TABLE "request_hours";
