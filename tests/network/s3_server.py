"""An S3 server that verifies signatures: moto. Prints a line with its URL and keys, and ends with its standard input."""
import os
import sys

# The actions below create what later ones are checked against.
os.environ.update(INITIAL_NO_AUTH_ACTION_COUNT="7", AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none")
import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://%s:%d" % server.get_host_and_port()
client = lambda service: boto3.client(service, endpoint_url=url, region_name="us-east-1")
iam, s3 = client("iam"), client("s3")
iam.create_user(UserName="larder")
keys = iam.create_access_key(UserName="larder")["AccessKey"]
policy = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
iam.put_user_policy(UserName="larder", PolicyName="all", PolicyDocument=policy)
s3.create_bucket(Bucket="bucket")
s3.put_object(Bucket="bucket", Key="site/index.html", Body=b"a page", ContentType="text/html", CacheControl="max-age=100")
s3.put_object(Bucket="bucket", Key="site/a.txt", Body=b"0123456789", ContentType="text/plain", CacheControl="max-age=100")
s3.put_object(Bucket="bucket", Key="site/film", Body=bytes(range(256)) * 4096, CacheControl="max-age=100")
print("s3", url, keys["AccessKeyId"], keys["SecretAccessKey"], flush=True)
sys.stdin.read()
