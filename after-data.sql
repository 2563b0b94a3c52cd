--
-- PostgreSQL database dump
--

\restrict JRJe8xgcVKVPf69Uh614qMy88uyN2Z3tDOZkJUDpvAK7ZgjIpGKfc62BYhrDQs8

-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Data for Name: projects; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: users; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: app_secrets; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: audit_log; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: user_bans; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: bans; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: challenge_keys; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: changes; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: changes_feed; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: changes_pruned; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: changes_timelines; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: database_identity; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: idempotency_keys; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: identities; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: import_parts; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: operators; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: login_links; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: operator_log; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: operator_passkeys; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: operator_projects; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: operator_sessions; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: passkey_challenges; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: tallies; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: tally_deltas; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: tally_slices; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: webhooks; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: webhook_attempts; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: webhook_hours; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Data for Name: webhook_secrets; Type: TABLE DATA; Schema: public; Owner: postgres
--



--
-- Name: accounts_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.accounts_id_seq', 1, false);


--
-- Name: app_secrets_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.app_secrets_id_seq', 1, false);


--
-- Name: audit_log_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.audit_log_id_seq', 1, false);


--
-- Name: bans_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.bans_id_seq', 1, false);


--
-- Name: changes_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.changes_id_seq', 1, true);


--
-- Name: identities_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.identities_id_seq', 1, false);


--
-- Name: login_links_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.login_links_id_seq', 1, false);


--
-- Name: operator_log_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.operator_log_id_seq', 1, false);


--
-- Name: operator_passkeys_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.operator_passkeys_id_seq', 1, false);


--
-- Name: operator_sessions_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.operator_sessions_id_seq', 1, false);


--
-- Name: operators_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.operators_id_seq', 1, false);


--
-- Name: passkey_challenges_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.passkey_challenges_id_seq', 1, false);


--
-- Name: projects_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.projects_id_seq', 1, false);


--
-- Name: tally_deltas_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.tally_deltas_id_seq', 1, false);


--
-- Name: users_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.users_id_seq', 1, false);


--
-- Name: webhook_secrets_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.webhook_secrets_id_seq', 1, false);


--
-- Name: webhooks_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postgres
--

SELECT pg_catalog.setval('public.webhooks_id_seq', 1, false);


--
-- PostgreSQL database dump complete
--

\unrestrict JRJe8xgcVKVPf69Uh614qMy88uyN2Z3tDOZkJUDpvAK7ZgjIpGKfc62BYhrDQs8

