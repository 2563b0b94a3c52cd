# The same backend in Python, with nothing but its standard library: python3 backend.py
import base64, json, os, uuid
from urllib.error import HTTPError
from urllib.request import Request, urlopen

URL = os.environ.get("USERDIR_URL", "http://127.0.0.1:4000")
PAIR = f"{os.environ['APP_ID']}:{os.environ['APP_SECRET']}"
HEADERS = {"authorization": "Basic " + base64.b64encode(PAIR.encode()).decode(), "content-type": "application/json"}


class Refused(Exception):
    """What the service has refused; `code` is one of docs/errors.md."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code = code


def graphql(query, **variables):
    body = json.dumps({"query": query, "variables": variables}).encode()
    try:
        with urlopen(Request(f"{URL}/graphql", body, HEADERS), timeout=30) as response:
            answer = json.load(response)
    except HTTPError as error:
        answer = json.load(error)
    for error in answer.get("errors", []):
        raise Refused(error["extensions"]["code"], error["message"])
    return answer["data"]


def record_login(**fields):
    """To be called once you know who logs in. A retry with the same key counts once."""
    query = """mutation ($input: RecordLoginInput!, $key: String) {
      recordLogin(input: $input, idempotencyKey: $key) { created user { id loginCount } } }"""
    return graphql(query, input=fields, key=str(uuid.uuid4()))["recordLogin"]


def owns_wallet(address, user_id):
    query = "query ($address: String!, $userId: ID!) { verifyWallet(address: $address, userId: $userId) { exists } }"
    return graphql(query, address=address, userId=user_id)["verifyWallet"]["exists"]


address = "0x52908400098527886E0F7030069857D2E4169EE7"
login = record_login(
    authMethod="email", authValue="ada@example.com", accounts=[{"network": "ETHEREUM", "publicKey": address}]
)
user = login["user"]
print(f"user {user['id']}: {'registered' if login['created'] else 'login ' + str(user['loginCount'])}")
print(f"owns the wallet: {str(owns_wallet(address, user['id'])).lower()}")
try:
    record_login(authMethod="email", authValue="no address")
except Refused as refused:
    print(f"refused: {refused.code}")
