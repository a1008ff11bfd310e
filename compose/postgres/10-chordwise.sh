#!/bin/sh
# Runs once, on an empty data folder. The extension needs a superuser, the service must not be one.
set -eu
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
\getenv password CHORDWISE_PASSWORD
CREATE ROLE chordwise LOGIN PASSWORD :'password';
CREATE DATABASE chordwise OWNER chordwise ENCODING 'UTF8' TEMPLATE template0;
\connect chordwise
CREATE EXTENSION IF NOT EXISTS vector;
SQL
