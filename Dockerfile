# Not built where it was written, which has no container engine. Its RUN steps were run there by hand, as root and in one stage;
# test/package/package.test.ts runs the last two of the first stage, the link, the HEALTHCHECK, the ENTRYPOINT and the CMD.
FROM node:24-bookworm-slim AS build
WORKDIR /checkout
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm pack && mkdir /app && tar -xzf userdir-*.tgz -C /app --strip-components=1
WORKDIR /app
RUN npm ci --omit=dev
# The query compilers of the databases that this is not for, each twice, and source maps: 75 MB.
RUN find node_modules/@prisma/client/runtime -name 'query_compiler_*' ! -name '*_small_bg.postgresql.*' -delete && find node_modules -name '*.map' -delete

FROM node:24-bookworm-slim
# Node 24 lets the young generation grow to 128 MiB; with this it is 64, as with `npm start` (docs/benchmarks.md).
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data NODE_OPTIONS=--max-semi-space-size=32
# For the embedded database: mount a volume here. None is declared, because with PostgreSQL each container would leave an empty one behind.
RUN install -d -o node -g node -m 700 /data
WORKDIR /app
COPY --from=build /app ./
RUN chmod +x /app/dist/cli.js && ln -s /app/dist/cli.js /usr/local/bin/userdir
USER node
EXPOSE 4000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.PORT || 4000) + '/livez').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["userdir"]
CMD ["serve"]
